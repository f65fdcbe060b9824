import type { Crm } from './crm/crm.ts';
import { type Changes, createChanges } from './features/events/changes.ts';
import type { Copy } from './features/read-copy/copy.ts';
import type { MemberCache } from './features/records/member-cache.ts';
import { CacheUnavailable } from './platform/cache/shared-cache.ts';
import type { Log } from './platform/observability/log.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { Settings } from './platform/settings/table.ts';
import type { Database } from './platform/store/database.ts';
import { member } from './records/members.ts';
import { booking, quote } from './records/quotes-and-bookings.ts';

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  opened: AsyncDisposableStack;
  database: Database;
  crm: Crm;
  members: MemberCache;
  copy: Copy | null;
}

/** Starts the reader of changes in the CRM; null where it is off. */
export async function watchChanges(parts: Parts): Promise<Changes | null> {
  const { settings, opened, crm, members, copy } = parts;
  const { pollSeconds, minimumSeconds } = settings.changes;
  if (pollSeconds === 0) return null;
  const changes = createChanges({
    ...parts,
    source: crm.changes,
    // Without an age a call is answered by the CRM alone.
    records: crm.records,
    // The order in which events of one moment are told: what others refer to comes first.
    resources: [member, quote, booking],
    pollSeconds,
    minimumSeconds,
    keeper: copy?.keeper,
    memberChanged: async (externalId) => {
      // The copy gets what the reader sees.
      if (copy !== null) return;
      await members.drop(externalId, Date.now()).catch((error: unknown) => {
        // What is cached ends by itself, within minutes.
        if (!(error instanceof CacheUnavailable)) throw error;
      });
    },
  });
  crm.onWrite(changes.nudge);
  crm.onMissing(async (...missing) => {
    await Promise.all([copy?.missing(...missing), changes.missing(...missing)]);
  });
  opened.defer(() => changes.stop());
  await changes.start();
  return changes;
}
