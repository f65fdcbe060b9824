import { type RawBuilder, sql } from 'kysely';

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
