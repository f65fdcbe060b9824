import { WriteBehind } from '../../platform/base/batching.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { dayMs } from '../../platform/base/moment.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { AuditEvent } from './audit-event.ts';
import type { AuditEventTable } from './audit-event-table.ts';

const batchSize = 200;
/** Ids of stored events that are remembered, so that they are not sent again with each refresh. */
const maxStored = 20_000;

interface AuditEventArchiveOptions {
  table: Pick<AuditEventTable, 'add'>;
  log: Log;
  retentionDays: number;
}

interface PendingEvent {
  event: AuditEvent;
  stored: PromiseWithResolvers<void>;
}

/**
 * Brings events from the records of consumers, where they cannot be lost, to the database. Every replica does it with what
 * it reads; the first one counts. While the database is unavailable they wait in memory and in the records.
 */
export class AuditEventArchive {
  readonly #options: AuditEventArchiveOptions;
  readonly #pending = new Map<string, PendingEvent>();
  readonly #unstored: WriteBehind<PendingEvent>;
  readonly #stored = new Set<string>();

  constructor(options: AuditEventArchiveOptions) {
    const { log } = options;
    this.#options = options;
    this.#unstored = new WriteBehind({
      write: (batch) => this.#store(batch),
      batchSize,
      onFailing: (err) => log.warn({ err }, 'consumer changes wait for the database'),
    });
  }

  /** Resolves once the database has all of them; not before, however long that takes. */
  async keep(events: readonly AuditEvent[]): Promise<void> {
    const oldest = wallMs() - this.#options.retentionDays * dayMs;
    const missing = events.filter(
      ({ id, timestamp }) => !this.#stored.has(id) && !(Date.parse(timestamp) < oldest),
    );
    const stored = missing.map((event) => this.#add(event));
    if (missing.length > 0) this.#unstored.flushSoon();
    await Promise.all(stored);
  }

  #add(event: AuditEvent): Promise<void> {
    const known = this.#pending.get(event.id);
    if (known !== undefined) return known.stored.promise;
    const pending = { event, stored: Promise.withResolvers<void>() };
    this.#pending.set(event.id, pending);
    this.#unstored.add(event.id, pending);
    return pending.stored.promise;
  }

  /** Stores all that came before this call. Throws what the database does; nothing is lost by that. */
  flush(): Promise<void> {
    return this.#unstored.flush();
  }

  async stop(): Promise<void> {
    await this.#unstored.stop().catch(() => undefined);
  }

  async #store(batch: readonly PendingEvent[]): Promise<void> {
    const added = new Set(await this.#options.table.add(batch.map(({ event }) => event)));
    for (const { event, stored } of batch) {
      // The replica that did it has logged what a consumer did.
      if (added.has(event.id) && event.actor.type !== 'consumer') logAuditEvent(this.#options.log, event);
      this.#stored.add(event.id);
      this.#pending.delete(event.id);
      stored.resolve();
    }
    forgetOldest(this.#stored, maxStored);
  }
}

/** One line for each change, wherever it was made. The log holds no API keys, not even their public half. */
export function logAuditEvent(log: Log, event: AuditEvent): void {
  const changes = event.changes.filter(({ field }) => field !== 'apiKey');
  const [what] = event.action.split('.');
  log.info(
    { audit: true, ...event, changes },
    what === 'consumer' ? 'a consumer was changed' : 'a hand-off was decided on',
  );
}
