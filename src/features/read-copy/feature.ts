import type { Command } from 'commander';
import { Type } from 'typebox';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import {
  addGroup,
  type LoadSettings,
  runCommand,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { shareProbe } from '../../platform/observability/health.ts';
import { seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { listOf } from '../../records/mapping.ts';
import { recordCopy } from '../../records/offers.ts';
import { copyWriterOffer } from '../events/copy-writer.ts';
import type { EventsSettings } from '../events/settings.ts';
import { clearCopy, createCopy, dropCopy, eraseCopiedMember } from './copy.ts';
import { type ReadCopyMetrics, readCopyMetrics } from './metrics.ts';

const readCopySettings = {
  'copy.enabled': setting(
    'COPY_ENABLED',
    Type.Boolean(),
    false,
    'Copies records to the database, for reads that accept an older answer. Needs `changes.pollSeconds` over 0; the same for all replicas. See copy.md.',
  ),
  'copy.defaultMaxAgeSeconds': setting(
    'COPY_DEFAULT_MAX_AGE_SECONDS',
    seconds(0, 86_400),
    0,
    'How old answers from the copy may be without `Cache-Control`; 0 always asks Salesforce.',
  ),
};

type ReadCopySettings = SettingsOf<typeof readCopySettings>;

const readCopyPart: SettingsPart = {
  table: readCopySettings,
  // Changes that nobody reads cannot be copied.
  check({ raw, named }) {
    if (raw['copy.enabled'] !== true || raw['changes.pollSeconds'] !== 0) return [];
    return [
      `${named('copy.enabled')} needs ${named('changes.pollSeconds')} over 0: the reader of changes keeps the copy`,
    ];
  },
};

const most = 2_147_483_647;

const copyHealth = Type.Optional(
  Type.Object(
    {
      connected: Type.Boolean({ description: 'False where it is too old, or not filled yet.' }),
      age_seconds: Type.Optional(
        Type.Union([Type.Integer({ minimum: 0, maximum: most }), Type.Null()], {
          description: 'How old the copy is; null until it is filled.',
        }),
      ),
      records: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: most,
          description: 'How many records it has, perhaps estimated.',
        }),
      ),
      filling: Type.Optional(Type.Boolean({ description: 'True while it is being filled; else absent.' })),
    },
    {
      description: "The copy of the CRM's records, where one is kept.",
      examples: [{ connected: true, age_seconds: 12, records: 21_456 }],
    },
  ),
);

/**
 * Adds `copy rebuild`, which works on the database beside a running service; the embedded database is its service's alone.
 */
function registerCopyCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'copy',
    heading: 'org',
    description: "the gateway's own copy of Salesforce records",
  });
  group
    .command('rebuild')
    .description('empty the copy; a running gateway fills it again')
    .action((_options: object, command: Command) =>
      runCommand(command, async () => {
        await withDatabase(load, 'handoff copy', (database) => dropCopy(database));
        process.stdout.write('The copy is empty. A running gateway with copy.enabled fills it again.\n');
      }),
    );
}

export const readCopy = defineFeature({
  name: 'read-copy',
  settings: readCopyPart,
  metrics: readCopyMetrics,
  health: { copy: copyHealth },
  start,
  commands: registerCopyCommands,
  erasers: [
    {
      part: 'copied_records',
      erase: async (memberId, { database }) => {
        const count = await eraseCopiedMember(database, memberId);
        return { label: 'copied records', count, fields: { copied_records: count } };
      },
    },
  ],
});

async function start(core: Core<ReadCopySettings & EventsSettings, ReadCopyMetrics>): Promise<Started> {
  const { settings, crm, database, offers, opened } = core;
  const jobs = [
    {
      name: 'clear-copy',
      cron: '7 * * * *',
      steps: { copy: (signal: AbortSignal) => clearCopy(database, signal) },
    },
  ];
  if (!settings.copy.enabled) return { jobs };
  const copy = createCopy({
    ...core,
    environment: settings.environment,
    // The simulated one gets another address with every start.
    org: core.simulated['crm'] ? 'simulated' : crm.connectionHash,
    // Resources that others refer to come first.
    resources: listOf(core.resources),
    typesChanged: crm.schema.changed,
    source: crm.changes,
    defaultMaxAgeSeconds: settings.copy.defaultMaxAgeSeconds,
    pollSeconds: settings.changes.pollSeconds,
  });
  opened.defer(() => copy.stop());
  await copy.start();
  crm.missing.add(copy.missing);
  offers.make(copyWriterOffer, copy.writer);
  offers.make(recordCopy, {
    ...copy.reads,
    memberChanged: (externalId) => copy.markStale(core.resources.member, externalId),
  });
  return { records: copy.records, health: { copy: shareProbe(copy.health) }, jobs };
}
