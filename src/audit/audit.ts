import type { Database } from '../store/database.ts';
import { orUnavailable } from '../store/failures.ts';
import type { AttemptRecorder } from './attempt.ts';
import { AttemptArchive, type AttemptArchiveOptions } from './attempt-archive.ts';
import { type AttemptQuery, AttemptTable, type ListedAttempt } from './attempt-table.ts';
import { type LastUses, LastUseTable } from './last-uses.ts';

/** The attempts that are kept in the database. */
export interface Audit extends AttemptRecorder {
  /** Newest first, with those that this replica has just recorded. Throws `Problem` store_unavailable. */
  list(query: AttemptQuery): Promise<ListedAttempt[]>;
  /** When the keys of these consumers were used last; while the database is unavailable, as far as this replica knows. */
  lastUses(consumerIds: readonly string[]): Promise<LastUses>;
  /** Whether other consumers than these have ever called, as far as attempts are kept. Throws what the database does. */
  knowsOthersThan(consumerIds: readonly string[]): Promise<boolean>;
  /** Deletes what is older, a piece at a time; returns how many. Throws what the database does. */
  deleteOldAttempts(days: number): Promise<number>;
  /** Writes what is left. */
  stop(): Promise<void>;
}

export interface AuditOptions extends Omit<AttemptArchiveOptions, 'table'> {
  database: Database;
}

export function createAudit({ database, ...options }: AuditOptions): Audit {
  const table = new AttemptTable(database);
  const archive = new AttemptArchive({ table, ...options });
  const uses = new LastUseTable(database);
  return {
    record: (attempt) => {
      archive.record(attempt);
      uses.note(attempt);
    },
    lastUses: (consumerIds) => uses.of(consumerIds),
    list: (query) =>
      orUnavailable(
        async () => {
          await archive.flush();
          return table.list(query);
        },
        { keeps: 'holds authentication attempts' },
      ),
    knowsOthersThan: (consumerIds) => table.hasOthersThan(consumerIds),
    deleteOldAttempts: (days) => table.deleteOlderThan(days, Date.now()),
    stop: async () => void (await Promise.all([archive.stop(), uses.stop()])),
  };
}
