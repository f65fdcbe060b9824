import type { Call } from '../../platform/base/call.ts';
import { type Polling, startPolling } from '../../platform/base/waiting.ts';
import type { ConnectionState } from '../../platform/observability/health.ts';
import type { Database } from '../../platform/store/database.ts';
import { missingIdOf } from '../../records/changes.ts';
import type { Records } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { MissingRecords } from './missing-records.ts';
import { MissingTable } from './missing-table.ts';
import { ChangeReader, isRecentAbsence, type ReaderOptions } from './reader.ts';
import { ReaderTable } from './reader-table.ts';

/** Behind by more than this many polls, and this many seconds, changes count as not read. */
const mostPolls = 5;
const mostSeconds = 600;
/** Records that were deleted this many days ago are gone from the CRM's recycle bin, too. */
const restorableDays = 40;

export function createChanges(
  options: Omit<ReaderOptions, 'table' | 'missing' | 'wake'> & {
    database: Database;
    records: Pick<Records, 'find' | 'now'>;
  },
) {
  const { database, log, pollSeconds } = options;
  const table = new ReaderTable(database);
  let polling: Polling | undefined;
  let isPrepared = false;
  const prepare = async () => {
    if (!isPrepared) await table.prepare();
    isPrepared = true;
  };
  const check = async (stopping: AbortSignal) => {
    await prepare();
    await reader.check(stopping);
  };
  const missingTable = new MissingTable(database);
  const missing = new MissingRecords({ ...options, table: missingTable });
  const reader = new ChangeReader({ ...options, table, missing, wake: () => polling?.wake() });
  return {
    /** Something has changed: looks soon, at most every `changes.minimumSeconds`. */
    nudge: (): void => reader.nudge(),
    /** Notes that the CRM has no record with this External ID that the caller may see. Never rejects. */
    async missing(resource: Resource, externalId: string, call: Call): Promise<void> {
      // If this fails, the next comparison finds the record.
      const noted = await missingTable.note([missingIdOf(resource, externalId, call)]).catch(() => 0);
      if (noted > 0) reader.nudge();
    },
    async health(): Promise<ConnectionState> {
      const { state } = reader;
      if (state === undefined || state.completedAgo === null)
        return { connected: false, seconds_behind: null };
      const behind = Math.round(state.completedAgo + state.checkedAgo);
      return {
        connected:
          behind <=
          Math.max(mostSeconds, mostPolls * Math.max(pollSeconds, options.source.leastSeconds ?? 0)),
        seconds_behind: behind,
        ...(isRecentAbsence(state.absentAgo) && { deletions_missed: true }),
      };
    },
    async start(): Promise<void> {
      // Before requests are taken, so that the first of them has an event. Where the database fails, the check does it.
      await prepare().catch(() => undefined);
      polling = startPolling({ what: 'changes in the CRM', check, log });
      polling.wake();
    },
    async stop(): Promise<void> {
      reader.stop();
      await polling?.stop();
    },
  };
}

/** Forgets what is known of records that cannot come back. Throws what the database does. */
export async function forgetDeletedRecords(database: Database, signal?: AbortSignal): Promise<void> {
  await new ReaderTable(database).forgetDeleted(restorableDays, signal);
}
