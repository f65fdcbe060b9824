import { type Core, defineFeature, type Started } from '../../feature.ts';
import { shareProbe } from '../../platform/observability/health.ts';
import { listOf } from '../../records/mapping.ts';
import { memberCache, recordCopy } from '../../records/offers.ts';
import { copyWriterOffer } from '../events/copy-writer.ts';
import type { EventsSettings } from '../events/settings.ts';
import { registerCopyCommands } from './cli.ts';
import { clearCopy, createCopy, eraseCopiedMember } from './copy.ts';
import { copyHealth } from './health.ts';
import { type ReadCopyMetrics, readCopyMetrics } from './metrics.ts';
import { type ReadCopySettings, readCopyPart } from './settings.ts';

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
    // What others refer to comes first.
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
  offers.make(recordCopy, copy.reads);
  // The copy is the cache: what is dropped from it is read again for the copy.
  offers.make(memberCache, {
    find: (_id, fetch) => fetch(),
    drop: (externalId) => copy.markStale(core.resources.member, externalId),
  });
  return { records: copy.records, health: { copy: shareProbe(copy.health) }, jobs };
}
