import { type RawBuilder, sql } from 'kysely';
import type { PermissionResource } from '../../identity/consumers/consumer.ts';
import type { Database } from '../../platform/store/database.ts';
import { isOfTest } from '../../platform/store/statements.ts';
import type { KnownRecord } from './known-ids.ts';

/*
 * Every event once, in the table `events`. Readers go on from the sequence of the last event that they have seen, so no
 * event may become visible behind one with a higher sequence. Numbers from a sequence of the database would do that:
 * they are handed out before the commit. So they come from a single row, `event_counter`, that is updated with the
 * insert: its lock makes writers commit one after the other, in the order of their numbers, and a transaction that is
 * rolled back gives its numbers back.
 *
 * Others wait for that lock. A transaction adds its events as its last statement, and commits.
 */

export const eventTypes = [
  'quote.created',
  'quote.updated',
  'quote.deleted',
  'booking.created',
  'booking.updated',
  'booking.deleted',
  'member.created',
  'member.updated',
  'member.deleted',
  'handoff.awaiting_approval',
  'handoff.rejected',
  'handoff.created',
  'handoff.failed',
  'reservation.confirmed',
  'reservation.cancelled',
  'reservation.failed',
  'reservation.needs_attention',
  'webhook_endpoint.disabled',
  'consumer.allowance_used',
] as const;
export type EventType = (typeof eventTypes)[number];

/** Bytes of an event's data at most; longer ones are left out. */
const maxDataBytes = 256 * 1024;

export interface NewEvent {
  type: EventType;
  resource: { type: string; id: string };
  /** RFC 3339. */
  occurredAt: string;
  /** JSON text, as GET answers it. */
  data: string;
  permission: PermissionResource;
  consumerId?: string | undefined;
  privateTo?: string | undefined;
  /** The fields of the resource that it is about; undefined where it is about all. */
  changed?: readonly string[] | undefined;
}

/**
 * Adds events in their order, with one statement. To be the last one of the transaction that stores what the events
 * report. Throws what the database does.
 */
export async function addEvents(transaction: Database['sql'], events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return;
  const column = (read: (event: NewEvent) => unknown) => sql`${events.map(read)}`;
  await sql`
    with counter as (
      update event_counter set last_sequence = last_sequence + ${events.length}::integer
      returning last_sequence - ${events.length}::integer as before
    )
    insert into events (sequence, type, resource_type, resource_id, occurred_at, data, data_omitted,
      permission_resource, consumer_id, private_to, changed)
    select counter.before + added.number, type, resource_type, resource_id, occurred_at, data, data_omitted,
      permission_resource, consumer_id, private_to,
      case when changed is not null then array(select json_array_elements_text(changed::json)) end
    from counter, unnest(
      ${column(({ type }) => type)}::text[],
      ${column(({ resource }) => resource.type)}::text[],
      ${column(({ resource }) => resource.id)}::text[],
      ${column(({ occurredAt }) => occurredAt)}::timestamptz[],
      ${column((event) => (isTooLong(event) ? JSON.stringify({ id: event.resource.id }) : event.data))}::text[],
      ${column(isTooLong)}::boolean[],
      ${column(({ permission }) => permission)}::text[],
      ${column(({ consumerId }) => consumerId ?? null)}::text[],
      ${column(({ privateTo }) => privateTo ?? null)}::text[],
      ${column(({ changed }) => (changed === undefined ? null : JSON.stringify(changed)))}::text[]
    ) with ordinality as added (type, resource_type, resource_id, occurred_at, data, data_omitted,
      permission_resource, consumer_id, private_to, changed, number)`.execute(transaction);
}

/**
 * Sets the owners of records' earlier events to those of the records: who sees only its own goes by them. Throws what the database
 * does.
 */
export async function changeOwners(
  transaction: Database['sql'],
  records: readonly Pick<KnownRecord, 'resource' | 'externalId' | 'consumerId'>[],
): Promise<void> {
  const column = (read: (record: (typeof records)[number]) => unknown) => sql`${records.map(read)}::text[]`;
  await sql`
    update events e set consumer_id = record.consumer_id
    from unnest(${column(({ resource }) => resource)}, ${column(({ externalId }) => externalId)},
      ${column(({ consumerId }) => consumerId)}) as record (type, id, consumer_id)
    where e.resource_id = record.id and e.resource_type = record.type
      and e.consumer_id is distinct from record.consumer_id and not ${isOfTest(sql`e.consumer_id`)}`.execute(
    transaction,
  );
}

function isTooLong({ data }: NewEvent): boolean {
  return Buffer.byteLength(data) > maxDataBytes;
}

/* What statements of others read of the tables `events` and `event_counter`: parts of those statements. */

/** The sequence of the newest event; 0 where there was none yet. */
export const lastSequence: RawBuilder<string> = sql`(select last_sequence from event_counter)`;

/** Without the data, which may be long. */
const columns = sql.raw(
  'sequence, id, type, resource_type, resource_id, permission_resource, consumer_id, private_to, changed, recorded_at',
);

/** The first events after one position, and up to another. */
export function eventsBetween(
  after: RawBuilder<unknown>,
  upTo: RawBuilder<unknown>,
  limit: RawBuilder<unknown>,
): RawBuilder<unknown> {
  // For subqueries: a join with what the position comes from would read all events from the first one on.
  return sql`select ${columns} from events where sequence > ${after} and sequence <= ${upTo}
    order by sequence limit ${limit}`;
}

/**
 * The first events after a position, without their data, by the time (RFC 3339) they were recorded. The order of the
 * sequence may differ, since the time is that of the start of the transaction.
 */
export function eventsRecordedAfter(
  recordedAt: string,
  sequence: string,
  limit: number,
): RawBuilder<unknown> {
  return sql`select ${columns} from events
    where (recorded_at, sequence) > (${recordedAt}::timestamptz, ${sequence}::bigint)
    order by recorded_at, sequence limit ${limit}`;
}

export function eventWithId(id: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`select * from events where id = ${id}`;
}

export function eventIdsOf(type: string, id: string, limit: number): RawBuilder<unknown> {
  return sql`select id from events where resource_id = ${id} and resource_type = ${type}
    order by sequence desc limit ${limit}`;
}
