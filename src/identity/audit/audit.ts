import { wallMs } from '../../platform/base/chance.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { Turns } from '../../platform/store/turns.ts';
import type { Attempt } from './attempt.ts';
import { AttemptArchive, type AttemptArchiveOptions } from './attempt-archive.ts';
import { type AttemptQuery, AttemptTable, type ListedAttempt } from './attempt-table.ts';
import type { AuditEvent } from './audit-event.ts';
import { AuditEventArchive } from './audit-event-archive.ts';
import { type AuditEventQuery, AuditEventTable } from './audit-event-table.ts';
import { type KeyOwner, type LastUses, LastUseTable } from './last-uses.ts';
import { UsedNetworks, type UsedNetworksOptions } from './used-networks.ts';

export type Audit = ReturnType<typeof createAudit>;

interface AuditOptions extends Omit<AttemptArchiveOptions, 'table'>, UsedNetworksOptions {
  metrics: AttemptArchiveOptions['metrics'] & UsedNetworksOptions['metrics'];
  retentionDays: number;
}

/** At once in this process: a search by address may read all attempts of a consumer. */
const searchesAtOnce = 4;

export function createAudit({ database, retentionDays, ...options }: AuditOptions) {
  const table = new AttemptTable(database);
  const searches = new Turns(searchesAtOnce, 'searches of the attempts');
  const archive = new AttemptArchive({ table, ...options });
  const eventTable = new AuditEventTable(database);
  const events = new AuditEventArchive({ table: eventTable, retentionDays, log: options.log });
  const uses = new LastUseTable(database);
  const recorded: ((attempt: Attempt) => void)[] = [];
  const networks = new UsedNetworks({ database, ...options });
  return {
    record: (attempt: Attempt): void => {
      archive.record(attempt);
      uses.note(attempt);
      networks.note(attempt);
      recorded.forEach((listener) => listener(attempt));
    },
    /** Listeners are called with each attempt once its request is over. They must not throw, nor wait. */
    recorded: { add: (listener: (attempt: Attempt) => void): void => void recorded.push(listener) },
    lastUses: (consumers: readonly KeyOwner[]): Promise<LastUses> => uses.of(consumers),
    /** Lists them for a caller, newest first, with those that this replica has just recorded. Throws `Problem` store_unavailable. */
    list: (callerId: string, query: AttemptQuery): Promise<ListedAttempt[]> =>
      orUnavailable(
        async () => {
          await archive.flush();
          return searches.run(callerId, () => table.list(query));
        },
        { keeps: 'holds authentication attempts' },
      ),
    /** Whether other consumers than these have ever called, as far as attempts are kept. Throws what the database does. */
    knowsOthersThan: (consumerIds: readonly string[]) => table.hasOthersThan(consumerIds),
    /** Deletes what is older, a chunk at a time; returns how many. Throws what the database does. */
    deleteOldAttempts: (days: number, signal?: AbortSignal) => table.deleteOlderThan(days, wallMs(), signal),
    /** Records changes of consumers: resolves once the database has them. */
    keep: (added: readonly AuditEvent[]) => events.keep(added),
    /** Changes of consumers, newest first, with those that this replica knows of. Throws `Problem` store_unavailable. */
    listEvents: (query: AuditEventQuery): Promise<AuditEvent[]> =>
      orUnavailable(
        async () => {
          await events.flush();
          return eventTable.list(query);
        },
        { keeps: 'holds the changes of consumers' },
      ),
    /** Deletes changes that are older than they are kept. Throws what the database does. */
    deleteOldEvents: (signal?: AbortSignal) => eventTable.deleteOlderThan(retentionDays, wallMs(), signal),
    /** Forgets networks that were not used for as long as changes are kept. Throws what the database does. */
    deleteOldNetworks: (signal?: AbortSignal) => networks.deleteOld(retentionDays, signal),
    /** Forgets old uses of keys that are gone, given all consumers. Throws what the database does. */
    deleteOldUses: (consumers: readonly KeyOwner[], signal?: AbortSignal) =>
      uses.deleteOld(retentionDays, consumers, signal),
    stop: async () => {
      await Promise.all([archive.stop(), events.stop(), uses.stop(), networks.stop()]);
    },
  };
}
