import { sql } from 'kysely';
import { WriteBehind } from '../../platform/base/batching.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { dayMs } from '../../platform/base/moment.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks } from '../../platform/store/statements.ts';
import { firstAttemptIdOf } from './attempt.ts';
import type { AuditAction, AuditEvent } from './audit-event.ts';

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

export interface AuditEventQuery {
  action?: AuditAction;
  actor_id?: string;
  target_id?: string;
  /** Milliseconds since 1970; earlier events are left out. */
  since?: number;
  after?: string;
  byConsumers?: readonly string[] | undefined;
  limit: number;
}

const deletedAtOnce = 1000;

/**
 * Adds what is not there yet, in the caller's transaction where there is one; returns the ids of what was added. Throws what the
 * database does.
 */
export async function addAuditEvents(
  transaction: Database['sql'],
  events: readonly AuditEvent[],
): Promise<string[]> {
  const rows = events.map((event) => ({
    id: event.id,
    action: event.action,
    actor_id: event.actor.id,
    target_id: event.target.id,
    event,
  }));
  const added = await sql<{ id: string }>`
    insert into audit_events (id, action, actor_id, target_id, event)
    select id, action, actor_id, target_id, event
    from json_to_recordset(${JSON.stringify(rows, storable)}::json) as added (
      id uuid, action text, actor_id text, target_id text, event jsonb)
    on conflict do nothing
    returning id`.execute(transaction);
  return added.rows.map(({ id }) => id);
}

export class AuditEventTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Adds what is not there yet; returns the ids of what was added. May be repeated, and done by several replicas. */
  add(events: readonly AuditEvent[]): Promise<string[]> {
    return addAuditEvents(this.#database.sql, events);
  }

  async list({
    action,
    actor_id,
    target_id,
    since,
    after,
    byConsumers,
    limit,
  }: AuditEventQuery): Promise<AuditEvent[]> {
    const conditions = [
      sql`true`,
      ...(action === undefined ? [] : [sql`action = ${action}`]),
      ...(actor_id === undefined ? [] : [sql`actor_id = ${actor_id}`]),
      ...(target_id === undefined ? [] : [sql`target_id = ${target_id}`]),
      ...(since === undefined ? [] : [sql`id >= ${firstAttemptIdOf(since)}::uuid`]),
      ...(after === undefined ? [] : [sql`id < ${after}::uuid`]),
      ...(byConsumers === undefined ? [] : [sql`actor_id = any(${byConsumers}::text[])`]),
    ];
    const { rows } = await sql<{ event: AuditEvent }>`
      select event from audit_events where ${sql.join(conditions, sql` and `)}
      order by id desc limit ${limit}`.execute(this.#database.sql);
    return rows.map(({ event }) => event);
  }

  /** Deletes what is older; `now` in milliseconds since 1970. Returns how many. */
  deleteOlderThan(days: number, now: number, signal?: AbortSignal): Promise<number> {
    const boundary = firstAttemptIdOf(now - days * dayMs);
    const statement = (limit: number) => sql`
      delete from audit_events where id in (
        select id from audit_events where id < ${boundary}::uuid order by id limit ${limit})`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

/** The database holds no half of a surrogate pair and no NUL; one event with such a text must not keep out the others. */
function storable(_: string, value: unknown): unknown {
  return typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : value;
}
