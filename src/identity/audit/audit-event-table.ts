import { sql } from 'kysely';
import { dayMs } from '../../platform/base/moment.ts';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks, jsonText } from '../../platform/store/statements.ts';
import { firstAttemptIdOf } from './attempt.ts';
import type { AuditAction, AuditEvent } from './audit-event.ts';

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
    from json_to_recordset(${jsonText(rows)}::json) as added (
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
