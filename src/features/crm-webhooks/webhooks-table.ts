import { sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { type Held, leasesOf } from '../../platform/store/leases.ts';
import {
  changeInChunks,
  changeInSearch,
  interval,
  type SearchedChunk,
  searchedAtOnce,
} from '../../platform/store/statements.ts';

export const memberEventTypes = ['member.created', 'member.updated', 'member.deleted'] as const;

export function isMemberEvent(type: string): boolean {
  return (memberEventTypes as readonly string[]).includes(type);
}

export interface ReceivedWebhook {
  webhookId: string;
  type: string;
  occurredAt: Date;
  /** External ID in lower case; null for types that are not about a member. */
  memberId: string | null;
  payload: string;
}

export type WebhookState = 'received' | 'processed' | 'ignored' | 'dead';
export const webhookStates: readonly WebhookState[] = ['received', 'processed', 'ignored', 'dead'];

/** Webhooks that one statement takes at most, each of another member. */
const takenAtOnce = 100;
const deletedAtOnce = 5000;

const lease = leasesOf({
  table: 'webhook_events',
  row: 'e',
  key: ['webhook_id'],
  // Also the time before which a webhook without an owner is not due.
  leasedUntil: 'due_at',
  fence: 'attempts',
});
/** Attempts since the last replay. */
const attempts = sql`e.attempts - e.attempts_before as attempts`;

export interface LeasedWebhook extends Held {
  webhook_id: string;
  type: string;
  member_id: string;
  fence: number;
  attempts: number;
  received_at: Date;
}

export interface ListedWebhook {
  webhook_id: string;
  type: string;
  member_id: string | null;
  event_at: Date;
  state: WebhookState;
  attempts: number;
  last_error: string | null;
  came_late: boolean;
  received_at: Date;
  finished_at: Date | null;
}

export class WebhooksTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async add({ webhookId, type, occurredAt, memberId, payload }: ReceivedWebhook): Promise<boolean> {
    const isKnown = isMemberEvent(type);
    const { numAffectedRows } = await sql`
      insert into webhook_events
        (webhook_id, type, event_at, member_id, payload, state, due_at, received_at, finished_at)
      values (${webhookId}, ${type}, ${occurredAt}, ${memberId}, ${isKnown ? payload : ''}, ${isKnown ? 'received' : 'ignored'},
        now(), now(), ${isKnown ? null : sql`now()`})
      on conflict (webhook_id) do nothing`.execute(this.#database.sql);
    return numAffectedRows === 1n;
  }

  /**
   * Takes webhooks that are due, of each member the earliest that is not finished: so they are applied in the order of
   * their times. Of two processes, one gets a webhook.
   */
  take(): Promise<LeasedWebhook[]> {
    return lease.takeDue<LeasedWebhook>(this.#database.sql, {
      where: sql`state = 'received' and not exists (
        select from webhook_events as earlier
        where earlier.state = 'received' and earlier.member_id = e.member_id
          and (earlier.event_at, earlier.sequence) < (e.event_at, e.sequence))`,
      orderBy: 'due_at',
      limit: takenAtOnce,
      returning: sql`e.webhook_id, e.type, e.member_id, e.attempts as fence, ${attempts}, e.received_at`,
    });
  }

  /** Without the payload from then on: the gateway needs none, not for a replay either. */
  async finish({ webhook_id, fence }: LeasedWebhook): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update webhook_events as e set state = 'processed', finished_at = now(), last_error = null, payload = '',
        came_late = exists (
          select from webhook_events as later
          where later.member_id = e.member_id and later.state = 'processed' and later.event_at > e.event_at)
      where webhook_id = ${webhook_id} and ${lease.isOf(fence)} and state = 'received'`.execute(
      this.#database.sql,
    );
    return numAffectedRows === 1n;
  }

  /** The webhook is due again after this many seconds, or dead where that is undefined. */
  async fail(
    { webhook_id, fence }: LeasedWebhook,
    error: string,
    afterSeconds: number | undefined,
  ): Promise<void> {
    const next =
      afterSeconds === undefined
        ? sql`state = 'dead', finished_at = now()`
        : sql`due_at = now() + ${interval(afterSeconds)}`;
    await sql`
      update webhook_events e set last_error = ${error}, ${next}
      where webhook_id = ${webhook_id} and ${lease.isOf(fence)} and state = 'received'`.execute(
      this.#database.sql,
    );
  }

  async list(state: WebhookState | undefined, limit: number): Promise<ListedWebhook[]> {
    const where = state === undefined ? sql`` : sql`where state = ${state}`;
    const { rows } = await sql<ListedWebhook>`
      select webhook_id, type, member_id, event_at, state, ${attempts}, last_error, came_late, received_at, finished_at
      from webhook_events e ${where} order by sequence desc limit ${limit}`.execute(this.#database.sql);
    return rows;
  }

  /** Has a finished webhook of a known type processed again; returns the state that it had, undefined where there is none. */
  async replay(webhookId: string): Promise<Pick<ListedWebhook, 'state' | 'type'> | undefined> {
    const { rows } = await sql<Pick<ListedWebhook, 'state' | 'type'>>`
      select state, type from webhook_events where webhook_id = ${webhookId}`.execute(this.#database.sql);
    const [found] = rows;
    if (found === undefined || found.state === 'received' || !isMemberEvent(found.type)) return found;
    await sql`
      update webhook_events set state = 'received', attempts_before = attempts, due_at = now(), finished_at = null, came_late = false
      where webhook_id = ${webhookId} and state <> 'received' and member_id is not null`.execute(
      this.#database.sql,
    );
    return found;
  }

  /**
   * Empties the payloads of a member's webhooks, and of all that name the member; returns how many had one. No payload is
   * needed later, and the rest of the row keeps a repeat from being taken for another webhook.
   */
  eraseMember(memberId: string): Promise<number> {
    return changeInSearch(
      this.#database.bulk,
      '0',
      (after) => sql<SearchedChunk<string>>`
        with chunk as (
          select sequence from webhook_events where sequence > ${after}::bigint order by sequence limit ${searchedAtOnce}
        ), erased as (
          update webhook_events e set payload = '' from chunk
          where e.sequence = chunk.sequence and payload <> ''
            and (member_id = ${memberId}::uuid or position(${memberId} in lower(payload)) > 0)
          returning 1
        )
        select (select max(sequence)::text from chunk) as last, (select count(*)::integer from erased) as changed`,
    );
  }

  deleteOlderThan(days: number, signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from webhook_events where webhook_id in (
        select webhook_id from webhook_events
        where state <> 'received' and received_at < now() - ${interval(days * 86_400)}
        limit ${limit})`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}
