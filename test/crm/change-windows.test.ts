import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { ChangeWindows, type ReadWindow } from '../../src/crm/read-changes.ts';
import type { ChangedRecord, ChangePosition } from '../../src/records/changes.ts';
import { member } from '../../src/records/members.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import type { Resource } from '../../src/records/resource.ts';

const began = Date.parse('2026-03-01T00:00:00Z');
const stampAt = (second: number) => new Date(began + second * 1000).toISOString();

/** Records that changed at these seconds, in the CRM's order. */
function changedAt(resource: Resource, seconds: readonly number[]): ChangedRecord[] {
  return [...seconds]
    .sort((a, b) => a - b)
    .map((second, index) => ({
      resource,
      nativeId: `${resource.name} ${String(index).padStart(6, '0')}`,
      stamp: stampAt(second),
      isDeleted: false,
      externalId: undefined,
      values: {},
    }));
}

/** Answers a window as the CRM does. */
function answer(
  all: readonly ChangedRecord[],
  { resource, position, before }: Window,
  limit: number,
): ReadWindow {
  const { stamp, nativeId = '' } = position;
  const records = all.filter(
    (record) =>
      record.resource === resource &&
      (record.stamp > stamp || (record.stamp === stamp && record.nativeId > nativeId)) &&
      (before === undefined || record.stamp < before),
  );
  const page = records.slice(0, limit);
  return { resource, position, ...(before && { before }), records: page, isWhole: page.length < limit };
}
type Window = ReturnType<ChangeWindows['split']>[number];

/** Reads all that there is; the records as they came, and how many calls it took. */
function readAll(windows: ChangeWindows, all: readonly ChangedRecord[], limit: number, from = 0) {
  const read: ChangedRecord[] = [];
  const positions = new Map<Resource, ChangePosition>(
    [member, quote, booking].map((resource) => [resource, { stamp: stampAt(from) }]),
  );
  let calls = 0;
  for (; positions.size > 0; calls++) {
    const asked = windows.split(positions, limit, began + 3_600_000);
    assert.ok(asked.length <= 5, `${asked.length} queries`);
    const { records, complete } = windows.join(asked.map((window) => answer(all, window, limit)));
    read.push(...records);
    for (const { resource, stamp, nativeId } of records) positions.set(resource, { stamp, nativeId });
    for (const resource of complete) positions.delete(resource);
  }
  return { read, calls };
}

const seconds = fc.array(fc.integer({ min: 0, max: 600 }), { maxLength: 300 });

describe('the queries of a call for changes', () => {
  test('read every record once and in its order, however the changes lie in time', () => {
    fc.assert(
      fc.property(
        seconds,
        seconds,
        seconds,
        fc.integer({ min: 1, max: 40 }),
        (ofQuotes, ofBookings, later, limit) => {
          const windows = new ChangeWindows();
          const sortedOf = (records: readonly ChangedRecord[], resource: Resource) =>
            records.filter((record) => record.resource === resource);
          for (const busy of [ofQuotes, later]) {
            const all = [...changedAt(quote, busy), ...changedAt(booking, ofBookings)];
            const { read } = readAll(windows, all, limit);
            for (const resource of [quote, booking])
              assert.deepEqual(sortedOf(read, resource), sortedOf(all, resource));
          }
        },
      ),
    );
  });

  test('need a fraction of the calls where changes come evenly', () => {
    const windows = new ChangeWindows();
    // 50 a second for six minutes, of which a query gives 2,000.
    const all = changedAt(
      quote,
      Array.from({ length: 18_000 }, (_, index) => Math.floor(index / 50)),
    );
    assert.equal(readAll(windows, all, 2000).calls, 3);
    // The next poll looks two minutes back, and knows how dense changes are.
    assert.equal(readAll(windows, all, 2000, 240).calls, 2);
  });

  test('take a record that changed while it was read as it was last', () => {
    const windows = new ChangeWindows();
    const [early, late] = changedAt(quote, [1, 50]) as [ChangedRecord, ChangedRecord];
    const moved = { ...late, nativeId: early.nativeId };
    const position = { stamp: stampAt(0) };
    const { records, complete } = windows.join([
      { resource: quote, position, before: stampAt(20), records: [early], isWhole: true },
      { resource: quote, position: { stamp: stampAt(20) }, records: [moved], isWhole: true },
    ]);
    assert.deepEqual([records, [...complete]], [[moved], [quote]]);
  });

  test('are one again where nothing is known of the first window, and too much lay behind it', () => {
    const windows = new ChangeWindows();
    const all = changedAt(
      quote,
      Array.from({ length: 200 }, (_, index) => index),
    );
    const positions = new Map([[quote, { stamp: stampAt(0) }]]);
    const split = () => windows.split(positions, 10, began + 3_600_000);
    windows.join([answer(all, { resource: quote, position: { stamp: stampAt(0) } }, 100)]);
    const asked = split();
    assert.equal(asked.length, 5);
    const cut = asked.map((window) => ({ ...window, records: [], isWhole: false }));
    assert.deepEqual(windows.join(cut), { records: [], complete: new Set() });
    assert.deepEqual(split(), [{ resource: quote, position: { stamp: stampAt(0) } }]);
  });
});
