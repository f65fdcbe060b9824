import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type RawBuilder, sql } from 'kysely';
import {
  type EventVisibility,
  isVisibleByRow,
  isVisibleTo,
  joinVisibility,
  mayBeVisibleByRow,
  shownTo,
  type ViewerVisibility,
  visibilityRows,
} from '../../../src/features/events/event-visibility.ts';
import { useTestDatabase } from '../../support/databases.ts';

interface Event {
  permission_resource: string | null;
  consumer_id: string | null;
  private_to: string | null;
  changed: string[] | null;
}

const live = 'con_live000000000001';
const other = 'con_live000000000002';
const test1 = 'con_test000000000001';
const test2 = 'con_test000000000002';
const people = [null, live, other, test1, test2];

const events: Event[] = people.flatMap((consumer_id) =>
  people.flatMap((private_to) =>
    ['quotes', 'bookings', null].flatMap((permission_resource) =>
      [null, ['name'], ['name', 'total']].map((changed) => ({
        permission_resource,
        consumer_id,
        private_to,
        changed,
      })),
    ),
  ),
);

const viewers: EventVisibility[] = [live, test1].flatMap((consumer_id) => [
  { consumer_id, all_records: ['quotes', 'bookings'], own_records: [], fields: {} },
  { consumer_id, all_records: ['quotes'], own_records: ['bookings'], fields: {} },
  { consumer_id, all_records: [], own_records: ['quotes'], fields: { quotes: ['total'] } },
  { consumer_id, all_records: [], own_records: [], fields: {} },
]);

const isTestId = (id: string) => id.startsWith('con_test00');

/** As the rule is said in words: of its own side, private to nobody else, of a record and a field that it sees. */
function isOfItsSide({ consumer_id, private_to }: Event, viewer: string): boolean {
  if (private_to !== null && private_to !== viewer) return false;
  return isTestId(viewer)
    ? (private_to ?? consumer_id) === viewer
    : consumer_id === null || !isTestId(consumer_id);
}

function isSeen(event: Event, { consumer_id, all_records, own_records, fields }: EventVisibility): boolean {
  const resource = event.permission_resource;
  if (resource === null || !isOfItsSide(event, consumer_id)) return false;
  const isOwn = own_records.includes(resource) && event.consumer_id === consumer_id;
  if (!all_records.includes(resource) && !isOwn) return false;
  const visible = fields[resource];
  return (
    visible === undefined || event.changed === null || event.changed.some((name) => visible.includes(name))
  );
}

describe('which events a consumer sees', () => {
  const opened = useTestDatabase();

  /** Those of the events for which the condition holds. */
  async function matching(
    condition: RawBuilder<boolean>,
    visibility: readonly ViewerVisibility[] = [],
  ): Promise<Event[]> {
    const { rows: found } = await sql<{ at: number }>`with ${visibilityRows(visibility)}
      select at::integer from jsonb_to_recordset(${JSON.stringify(events.map((event, at) => ({ ...event, at })))}::jsonb)
        as e (at bigint, permission_resource text, consumer_id text, private_to text, changed text[])
        ${joinVisibility(sql`'this'`)}
      where ${condition} order by at`.execute(opened.replicas[0].sql);
    return found.map(({ at }) => events[at] as Event);
  }

  for (const viewer of viewers)
    test(JSON.stringify(viewer), async () => {
      const seen = events.filter((event) => isSeen(event, viewer));
      assert.deepEqual(await matching(isVisibleTo(viewer)), seen);
      const others = {
        ...viewer,
        viewer: 'another',
        all_records: ['quotes', 'bookings'],
        own_records: [],
        fields: {},
      };
      const rows = [{ ...viewer, viewer: 'this' }, others];
      assert.deepEqual(await matching(isVisibleByRow(), rows), seen);
      const asConsumer = sql`${viewer.consumer_id}::text`;
      assert.deepEqual(await matching(mayBeVisibleByRow(asConsumer), rows), seen);
    });

  test('without a row: none for certain, and what is private to nobody else perhaps', async () => {
    const [first] = viewers as [EventVisibility];
    const rows = [{ ...first, viewer: 'another' }];
    for (const consumer of [live, test1]) {
      assert.deepEqual(await matching(isVisibleByRow(), rows), []);
      assert.deepEqual(
        await matching(mayBeVisibleByRow(sql`${consumer}::text`), rows),
        events.filter((event) => isOfItsSide(event, consumer)),
      );
    }
  });
});

test('of an event a consumer sees its fields of a record, and of anything else that it does not see all', () => {
  const visibility = { ...(viewers[0] as EventVisibility), fields: { quotes: ['name'] } };
  const shown = (resource_type: string, permission_resource: string) => {
    const data = '{"id":"a","name":"n","total":1}';
    const event = { resource_type, permission_resource, resource_id: 'a', data, data_omitted: false };
    const { data: seen, data_omitted } = shownTo(visibility, event);
    return [Object.keys(JSON.parse(seen)).join(), data_omitted];
  };
  assert.deepEqual(shown('quote', 'quotes'), ['id,name', false]);
  assert.deepEqual(shown('handoff', 'quotes'), ['id', true]);
  assert.deepEqual(shown('handoff', 'bookings'), ['id,name,total', false]);
});
