import { type RawBuilder, sql } from 'kysely';
import { allows, type Consumer, permissionResources } from '../../identity/consumers/consumer.ts';
import { visibleFields, visibleRecords } from '../../identity/consumers/permissions.ts';
import { isFieldVisible } from '../../platform/base/call.ts';
import { pickFields } from '../../platform/base/json-text.ts';
import { isOfTest } from '../../platform/store/statements.ts';

/*
 * Who may see an event is decided here alone, for the feed and for deliveries: a consumer sees the events of resources that
 * it may read, as far as it sees the record and one of the fields that the event is about; of the data it sees those
 * fields only. An event that is private to a consumer is for that one alone. Those of test consumers are for their makers, and
 * no live ones are for them.
 */

export interface EventVisibility {
  consumer_id: string;
  all_records: readonly string[];
  own_records: readonly string[];
  fields: Readonly<Record<string, readonly string[]>>;
}

interface EventData {
  /** Null for what is no event of the feed. */
  permission_resource: string | null;
  resource_type: string;
  resource_id: string;
  /** JSON text. */
  data: string;
  data_omitted: boolean;
}

export function eventVisibilityOf(consumer: Consumer): EventVisibility {
  const readable = permissionResources.filter((resource) => allows(consumer, resource, 'read'));
  const seesAll = (resource: string) => visibleRecords(consumer, resource) === 'all';
  return {
    consumer_id: consumer.id,
    all_records: readable.filter(seesAll),
    own_records: readable.filter((resource) => !seesAll(resource)),
    fields: Object.fromEntries(
      readable.flatMap((resource) => {
        const visible = visibleFields(consumer, resource);
        return visible === undefined ? [] : [[resource, visible]];
      }),
    ),
  };
}

const records: readonly string[] = ['member', 'quote', 'booking'];

/** The event without what the consumer does not see. What is no record is left out whole: a read shows its part. */
export function shownTo<E extends EventData>({ fields }: EventVisibility, event: E): E {
  const visible = fields[event.permission_resource ?? ''];
  if (visible === undefined || event.data_omitted) return event;
  if (!records.includes(event.resource_type))
    return { ...event, data: JSON.stringify({ id: event.resource_id }), data_omitted: true };
  return { ...event, data: pickFields(event.data, (name) => isFieldVisible(visible, name)) };
}

export function isVisibleTo(visibility: EventVisibility): RawBuilder<boolean> {
  const { consumer_id, all_records, own_records, fields } = visibility;
  return isVisible({
    consumerId: sql`${consumer_id}`,
    allRecords: sql`${all_records}::text[]`,
    ownRecords: sql`${own_records}::text[]`,
    fields: sql`${JSON.stringify(fields)}::jsonb`,
  });
}

export interface ViewerVisibility extends EventVisibility {
  viewer: string;
}

export function visibilityRows(all: readonly ViewerVisibility[]): RawBuilder<unknown> {
  return sql`visibility as (
    select * from jsonb_to_recordset(${JSON.stringify(all)}::jsonb)
      as one (viewer text, consumer_id text, all_records text[], own_records text[], fields jsonb))`;
}

/** The row `v` of the viewer, nulls where there is none. A condition that looks for it would read all rows for each event. */
export function joinVisibility(viewer: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`left join visibility v on v.viewer = ${viewer}`;
}

/** Condition: the viewer may see the event by its row `v`; false without one. */
export function isVisibleByRow(): RawBuilder<boolean> {
  return sql`coalesce(${isVisible(columns)}, false)`;
}

/**
 * Condition: the viewer may see the event by its row `v`. Without one nobody can say yet what it may read: it may see what is
 * not private to another consumer.
 */
export function mayBeVisibleByRow(consumerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`case when v.viewer is null then ${isNotPrivateToAnother(consumerId)} else ${isVisibleByRow()} end`;
}

/**
 * Condition: the event `e` is not private to another consumer than this one, whatever that one may read; those of a test
 * consumer are, and those of the CRM to live ones.
 */
function isNotPrivateToAnother(consumerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`((e.private_to is null or e.private_to = ${consumerId})
    and case when ${isOfTest(consumerId)} then coalesce(e.private_to, e.consumer_id) = ${consumerId}
      else not ${isOfTest(sql`e.consumer_id`)} end)`;
}

const columns = {
  consumerId: sql`v.consumer_id`,
  allRecords: sql`v.all_records`,
  ownRecords: sql`v.own_records`,
  fields: sql`v.fields`,
};

function isVisible({
  consumerId,
  allRecords,
  ownRecords,
  fields,
}: Record<keyof typeof columns, RawBuilder<unknown>>): RawBuilder<boolean> {
  // Null, and so true, where the consumer sees all fields, or the event is about all.
  return sql`(${isNotPrivateToAnother(consumerId)} and (e.permission_resource = any(${allRecords})
    or (e.permission_resource = any(${ownRecords}) and e.consumer_id = ${consumerId}))
    and coalesce((${fields} -> e.permission_resource) ?| e.changed, true))`;
}
