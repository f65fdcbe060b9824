import { type RawBuilder, sql } from 'kysely';
import { allows, type Consumer, permissionResources } from '../../identity/consumers/consumer.ts';
import { visibleRecords } from '../../identity/consumers/visible-records.ts';

/*
 * Who may see an event is decided here alone, for the feed and for deliveries: a consumer sees the events of resources that
 * it may read, as far as it sees the record. An event that is private to a consumer is for that one alone.
 */

/** The events that a consumer may see. */
export interface EventVisibility {
  consumer_id: string;
  /** Resources of which it sees the events of every record. */
  all_records: readonly string[];
  /** Resources of which it sees the events of records that it made. */
  own_records: readonly string[];
}

/** The events that the consumer may see by its permissions as they are now. */
export function eventVisibilityOf(consumer: Consumer): EventVisibility {
  const readable = permissionResources.filter((resource) => allows(consumer, resource, 'read'));
  const seesAll = (resource: string) => visibleRecords(consumer, resource) === 'all';
  return {
    consumer_id: consumer.id,
    all_records: readable.filter(seesAll),
    own_records: readable.filter((resource) => !seesAll(resource)),
  };
}

/** Condition: the consumer may see the event `e`. */
export function isVisibleTo({ consumer_id, all_records, own_records }: EventVisibility): RawBuilder<boolean> {
  return isVisible(sql`${consumer_id}`, sql`${all_records}::text[]`, sql`${own_records}::text[]`);
}

/** `visibility`, for a `with`: what `isVisibleByRows` looks up. */
export function visibilityRows(all: readonly EventVisibility[]): RawBuilder<unknown> {
  return sql`visibility as (
    select * from jsonb_to_recordset(${JSON.stringify(all)}::jsonb)
      as one (consumer_id text, all_records text[], own_records text[]))`;
}

/** Condition: the consumer with this id may see the event `e` by `visibility`; nobody without a row there may. */
export function isVisibleByRows(consumerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`exists (
    select from visibility v
    where v.consumer_id = ${consumerId} and ${isVisible(sql`v.consumer_id`, sql`v.all_records`, sql`v.own_records`)})`;
}

/** Condition: the event `e` is not private to another consumer than this one, whatever that one may read. */
export function isNotPrivateToAnother(consumerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`(e.private_to is null or e.private_to = ${consumerId})`;
}

function isVisible(
  consumerId: RawBuilder<unknown>,
  allRecords: RawBuilder<unknown>,
  ownRecords: RawBuilder<unknown>,
): RawBuilder<boolean> {
  return sql`(${isNotPrivateToAnother(consumerId)} and (e.permission_resource = any(${allRecords})
    or (e.permission_resource = any(${ownRecords}) and e.consumer_id = ${consumerId})))`;
}
