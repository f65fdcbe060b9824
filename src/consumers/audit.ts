import { Problem } from '../base/problem.ts';
import type { Database } from '../store/database.ts';
import { AttemptArchive, type AttemptArchiveOptions } from './attempt-archive.ts';
import { type AttemptQuery, createAttemptTable, type StoredAttempt } from './attempt-table.ts';
import type { AttemptRecorder } from './attempts.ts';

/** The attempts that are kept in the database. */
export interface Audit extends AttemptRecorder {
  /** Newest first, with those that this replica has just recorded. Throws `Problem` store_unavailable. */
  list(query: AttemptQuery): Promise<StoredAttempt[]>;
  /** Deletes what is older, a piece at a time; returns how many. Throws what the database does. */
  deleteOldAttempts(days: number): Promise<number>;
  /** Writes what is left. */
  stop(): Promise<void>;
}

export interface AuditOptions extends Omit<AttemptArchiveOptions, 'table'> {
  database: Database;
}

export function createAudit({ database, ...options }: AuditOptions): Audit {
  const table = createAttemptTable(database);
  const archive = new AttemptArchive({ table, ...options });
  return {
    record: (attempt) => archive.record(attempt),
    list: async (query) => {
      try {
        await archive.flush();
        return await table.list(query);
      } catch (cause) {
        const detail = 'The database that holds authentication attempts is not available.';
        throw new Problem('store_unavailable', detail, { retryAfter: 1, cause });
      }
    },
    deleteOldAttempts: (days) => table.deleteOlderThan(days, Date.now()),
    stop: () => archive.stop(),
  };
}
