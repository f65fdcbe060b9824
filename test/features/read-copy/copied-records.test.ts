import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { createCopiedReads } from '../../../src/features/read-copy/copied-records.ts';
import type { CopyTable } from '../../../src/features/read-copy/copy-table.ts';
import { readCopyMetrics } from '../../../src/features/read-copy/metrics.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import type { FieldValues } from '../../../src/records/records.ts';
import { recordLog } from '../../support/log.ts';

const represent = (values: FieldValues) => JSON.stringify(values);

/** Lists of this copy, as one consumer asks for them, and the log. */
function listsOf(list: () => Promise<object>) {
  const { log, lines } = recordLog();
  const reads = createCopiedReads({
    table: { list } as unknown as CopyTable,
    defaultMaxAgeSeconds: 60,
    areUnnotedSeenBy: () => true,
    isBehind: () => false,
    log,
    metrics: createMetrics(readCopyMetrics),
  });
  const read = () =>
    reads.list(
      quote,
      { filters: {}, limit: 10, maxBytes: 4_000_000, represent },
      { ...startCall('test', 'con_a'), freshness: { maxAgeSeconds: undefined } },
    );
  return { read, lines };
}

/** Reads of a copy that has one quote with a name of so many characters. */
function readsOf(length: number) {
  const values = Object.fromEntries(Object.keys(quote.fields).map((name) => [name, null]));
  const id = randomUUID();
  const content = JSON.stringify({ ...values, id, name: 'n'.repeat(length) });
  const row = { external_id: id, native_id: 'id', content, is_stale: false };
  const found = { age: 1, isCut: false, hasStale: false, rightAgo: 1, hasOwners: true, rows: [row] };
  return listsOf(async () => found).read;
}

test('large pages come from the copy, however many are asked for at once', async () => {
  const list = readsOf(1_000_000);
  const pages = await Promise.all(Array.from({ length: 20 }, list));
  for (const page of pages) assert.equal(page?.records.length, 1);
});

test('a copy that cannot be read is logged once, and left alone for a while', async () => {
  let asked = 0;
  const { read, lines } = listsOf(async () => {
    asked += 1;
    throw new Error('the database is unavailable');
  });
  assert.deepEqual(await Promise.all([read(), read()]), [undefined, undefined]);
  assert.equal(await read(), undefined);
  assert.equal(asked, 2);
  assert.deepEqual(
    lines.map(({ message }) => message),
    ["couldn't read the copy; asking Salesforce for some seconds"],
  );
});

test('records that are looked up at once are one question to the copy', async () => {
  const asked: number[] = [];
  const find = async (keys: readonly object[]) => {
    asked.push(keys.length);
    return { age: 1, rows: keys.map(() => []) };
  };
  const reads = createCopiedReads({
    table: { find } as unknown as CopyTable,
    defaultMaxAgeSeconds: 60,
    areUnnotedSeenBy: () => true,
    isBehind: () => false,
    log: recordLog().log,
    metrics: createMetrics(readCopyMetrics),
  });
  const call = { ...startCall('test'), freshness: { maxAgeSeconds: 60 } };
  await Promise.all(Array.from({ length: 50 }, () => reads.find(quote, randomUUID(), call)));
  assert.deepEqual(asked, [50]);
});
