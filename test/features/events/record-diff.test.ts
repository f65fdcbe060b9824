import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KnownIds, type KnownRecord } from '../../../src/features/events/known-ids.ts';
import { createDiff } from '../../../src/features/events/record-diff.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import type { FieldValues } from '../../../src/records/records.ts';

const id = '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f';
const stamp = '2027-03-02T16:05:12.000Z';
const diff = createDiff(quote);

/** The event of a record that was known like that. */
function eventOf(known: KnownRecord | undefined, values: FieldValues) {
  const ids = new KnownIds({ records: known ? [known] : [], pending: [] });
  const record = { resource: quote, nativeId: 'a', stamp, isDeleted: false, externalId: id };
  const event = diff({ ...record, values: { id, ...values } }, ids, { startedAt: 0, isSilent: false });
  return { event, known: ids.record({ resource: 'quote', nativeId: 'a' }) as KnownRecord };
}

const values = {
  name: 'a',
  status: 'b',
  consumer_id: 'con_o2tBsovC6m7gYpQd',
  actor: 'x',
  created_at: stamp,
  updated_at: stamp,
};

test('an event has the names of the fields that changed, as answers have them', () => {
  const { event, known } = eventOf(undefined, values);
  assert.deepEqual([event?.type, event?.changed], ['quote.created', undefined]);
  const later = { ...values, updated_at: '2027-03-02T16:06:00.000Z' };
  assert.equal(eventOf(known, later).event, undefined);
  const changed = (change: FieldValues) => eventOf(known, { ...later, ...change }).event?.changed;
  assert.deepEqual(changed({ status: null }), ['status']);
  assert.deepEqual(changed({ name: 'c', actor: 'y' }), ['name', 'created_by']);
});

test('no event says that a change is about fields of which an earlier program knew nothing', () => {
  const { known } = eventOf(undefined, values);
  const changed = { ...values, status: 'c' };
  for (const parts of [null, known.parts]) {
    // It stores the content alone: the parts stay those of the content before.
    const { event, known: after } = eventOf({ ...known, parts, content: 'of another' }, changed);
    assert.deepEqual([event?.type, event?.changed], ['quote.updated', undefined]);
    assert.deepEqual(eventOf(after, values).event?.changed, ['status']);
  }
  const unchanged = eventOf({ ...known, parts: null }, values);
  assert.deepEqual([unchanged.event, unchanged.known.parts], [undefined, known.parts]);
});
