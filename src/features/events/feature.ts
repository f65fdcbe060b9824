import { historySources } from '../../api/history.ts';
import {
  type Core,
  type CrmToken,
  crmOf,
  type DoctorCheck,
  defineFeature,
  type Erasure,
  type ErasureStores,
  NothingToCheck,
  type Started,
  settingsOf,
} from '../../feature.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { CacheUnavailable } from '../../platform/cache/shared-cache.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { listOf, resourcesOf } from '../../records/mapping.ts';
import { memberCache } from '../../records/offers.ts';
import { createChanges, forgetDeletedRecords } from './changes.ts';
import { registerEventCommands } from './cli.ts';
import { copyWriterOffer } from './copy-writer.ts';
import { EventFeed } from './event-feed.ts';
import { createEventHistory } from './event-history.ts';
import { changesHealth } from './health.ts';
import { type EventMetrics, eventMetrics } from './metrics.ts';
import { ReaderTable } from './reader-table.ts';
import { listEventsRoute } from './routes/events.ts';
import { type EventsSettings, eventsPart } from './settings.ts';

const changesCheck: DoctorCheck = {
  name: 'CRM changes',
  needs: ['CRM fields'],
  // A user that may not see deleted records cannot report deletions.
  async run(context) {
    const { changes } = settingsOf(context) as Settings & EventsSettings;
    if (changes.pollSeconds === 0) throw new NothingToCheck('changes.pollSeconds is 0');
    const resources = listOf(context.resources ?? resourcesOf());
    await crmOf(context)
      .readChanges(resources, context.token as CrmToken)
      .catch((error: Error) => {
        const [member, quote, booking] = resources.map(({ crmObject }) => crmObject);
        const advice = `The integration user needs View All Records on ${member}, ${quote} and ${booking}.`;
        throw new Error(`Changes and deleted records cannot be read: ${error.message} ${advice}`);
      });
    return 'created, changed and deleted records can be read';
  },
};

export const events = defineFeature({
  name: 'events',
  settings: eventsPart,
  metrics: eventMetrics,
  tags: { Events: 'What has happened to records and reservations, made by any user or system.' },
  health: { changes: changesHealth },
  start,
  routes: (feed: EventFeed, cursors) => [listEventsRoute(feed, cursors)],
  commands: registerEventCommands,
  checks: [changesCheck],
  erasers: [{ part: 'events', erase }],
});

async function start(core: Core<EventsSettings, EventMetrics>): Promise<Started<EventFeed>> {
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
          // What is cached ends by itself, within minutes.
          if (!(error instanceof CacheUnavailable)) throw error;
        });
    },
  });
  crm.changed.add(changes.nudge);
  crm.missing.add(changes.missing);
  opened.defer(() => changes.stop());
  await changes.start();
  return { routes: feed, health: { changes: changes.health }, jobs };
}

async function erase(memberId: string, { database }: ErasureStores): Promise<Erasure> {
  await new ReaderTable(database).eraseMember(memberId);
  const count = await new EventFeed(database).eraseMember(memberId);
  return { label: 'events', count, fields: { events: count } };
}
