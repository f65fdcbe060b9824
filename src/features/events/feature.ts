import type { Command } from 'commander';
import { Type } from 'typebox';
import { historySources } from '../../api/history.ts';
import {
  type Core,
  type DoctorCheck,
  defineFeature,
  type Erasure,
  type ErasureStores,
  NothingToCheck,
  orgOf,
  type Started,
  settingsOf,
} from '../../feature.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { CacheUnavailable } from '../../platform/cache/shared-cache.ts';
import {
  addGroup,
  addList,
  checkChoice,
  type LoadSettings,
  listedAtOnce,
  readDatabase,
  table,
} from '../../platform/command-line/command.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { listOf, resourcesOf } from '../../records/mapping.ts';
import { memberSourceOf } from '../../records/member-names.ts';
import { memberCache } from '../../records/offers.ts';
import { createChanges, forgetDeletedRecords } from './changes.ts';
import { copyWriterOffer } from './copy-writer.ts';
import { EventFeed, type ListedEvent } from './event-feed.ts';
import { createEventHistory } from './event-history.ts';
import { eventTypes } from './event-log.ts';
import { handoffContents } from './handoff-contents.ts';
import { type EventMetrics, eventMetrics } from './metrics.ts';
import { ReaderTable } from './reader-table.ts';
import { type EventParts, listEventsRoute } from './routes/events.ts';
import { type EventsSettings, eventsPart } from './settings.ts';

/**
 * Adds `events list`, which reads the database beside a running service.
 * Bad input ends the process with code 2.
 */
function registerEventCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'events',
    alias: 'event',
    heading: 'records',
    description: 'what has happened to records',
  });
  const find = async (options: { type?: string; resource?: string }) => {
    const type = checkChoice('--type', eventTypes, options.type);
    const resourceId = options.resource?.toLowerCase();
    return readDatabase(load, 'handoff event', (database) =>
      new EventFeed(database).latest(listedAtOnce, { type, resourceId }),
    );
  };
  addList(group, 'events', find, show)
    .option('--type <type>', 'only events of this type, such as quote.created')
    .option('--resource <id>', 'only events about the record with this id');
}

/** Without the data, which may be personal. */
function show(events: ListedEvent[]): string {
  if (events.length === 0) return 'No events found.';
  const header = ['recorded', 'occurred', 'type', 'resource', 'made by', 'id'];
  const rows = events.map((event) => [
    event.recorded_at.toISOString(),
    event.occurred_at.toISOString(),
    event.type,
    event.resource_id,
    event.consumer_id ?? '-',
    event.id,
  ]);
  return table([header, ...rows]);
}

const most = 2_147_483_647;

const changesHealth = Type.Optional(
  Type.Object(
    {
      connected: Type.Boolean({
        description: "False if changes haven't been read for too long, or not all of them yet.",
      }),
      seconds_behind: Type.Optional(
        Type.Union([Type.Integer({ minimum: 0, maximum: most }), Type.Null()], {
          description: 'How long ago they were read; null until all were read once.',
        }),
      ),
      deletions_missed: Type.Optional(
        Type.Boolean({ description: 'True for 30 days after deletions may have been missed; else absent.' }),
      ),
    },
    {
      description: 'Changes in the CRM, where they are read.',
      examples: [{ connected: true, seconds_behind: 3 }],
    },
  ),
);

const changesCheck: DoctorCheck = {
  name: 'Salesforce changes',
  needs: ['Salesforce fields'],
  // A user that may not see deleted records cannot report deletions.
  async run(context) {
    const { changes } = settingsOf(context) as Settings & EventsSettings;
    if (changes.pollSeconds === 0)
      throw new NothingToCheck("changes.pollSeconds is 0, so the gateway doesn't read changes.");
    const resources = listOf(context.resources ?? resourcesOf());
    await orgOf(context)
      .readChanges(resources)
      .catch((error: Error) => {
        const [member, quote, booking] = resources.map(({ crmObject }) => crmObject);
        const advice = `The integration user needs View All Records on ${member}, ${quote} and ${booking}.`;
        throw new Error(`Can't read changes and deleted records. ${error.message} ${advice}`);
      });
    return 'can read created, changed and deleted records';
  },
};

export const events = defineFeature({
  name: 'events',
  settings: eventsPart,
  metrics: eventMetrics,
  tags: { Events: 'Events about records and reservations, caused by any user or system.' },
  health: { changes: changesHealth },
  start,
  routes: (parts: EventParts, cursors) => [listEventsRoute(parts, cursors)],
  commands: registerEventCommands,
  checks: [changesCheck],
  erasers: [{ part: 'events', erase }],
});

async function start(core: Core<EventsSettings, EventMetrics>): Promise<Started<EventParts>> {
  const { settings, crm, database, offers, opened } = core;
  const { pollSeconds, minimumSeconds, retentionDays } = settings.changes;
  const feed = new EventFeed(database);
  const jobs = [
    {
      name: 'clear-events',
      cron: '7 * * * *',
      steps: {
        events: (signal: AbortSignal) => feed.deleteOlderThan(retentionDays, signal),
        records: (signal: AbortSignal) => forgetDeletedRecords(database, signal),
      },
    },
  ];
  offers.add(historySources, createEventHistory(database));
  if (pollSeconds === 0) return { routes: null, jobs };
  const copyWriter = offers.find(copyWriterOffer);
  const changes = createChanges({
    ...core,
    source: crm.changes,
    // Without an age a call is answered by the CRM alone.
    records: core.records,
    // The order of events of one moment: what others refer to comes first.
    resources: listOf(core.resources),
    pollSeconds,
    minimumSeconds,
    copyWriter,
    memberChanged: async (externalId) => {
      // The copy gets what the reader sees.
      if (copyWriter !== undefined) return;
      await offers
        .find(memberCache)
        ?.drop(externalId, wallMs())
        .catch((error: unknown) => {
          // Cached members end by themselves, within minutes.
          if (!(error instanceof CacheUnavailable)) throw error;
        });
    },
  });
  crm.changed.add(changes.nudge);
  crm.missing.add(changes.missing);
  opened.defer(() => changes.stop());
  await changes.start();
  const routes = { feed, memberSource: memberSourceOf(core), findHeld: offers.find(handoffContents) };
  return { routes, health: { changes: changes.health }, jobs };
}

async function erase(memberId: string, { database }: ErasureStores): Promise<Erasure> {
  await new ReaderTable(database).eraseMember(memberId);
  const count = await new EventFeed(database).eraseMember(memberId);
  return { label: 'events', count, fields: { events: count } };
}
