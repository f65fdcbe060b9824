import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import type { Fenced } from '../../../src/features/events/copy-writer.ts';
import { eventMetrics } from '../../../src/features/events/metrics.ts';
import { ChangeReader } from '../../../src/features/events/reader.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import { rowOf } from '../../../src/features/read-copy/copied-row.ts';
import { CopySync } from '../../../src/features/read-copy/copy-sync.ts';
import { CopyTable } from '../../../src/features/read-copy/copy-table.ts';
import { readCopyMetrics } from '../../../src/features/read-copy/metrics.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { member } from '../../../src/records/members.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import { openTestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';
import { openCopy } from './memory-copy.ts';
import { MemoryRecords } from './memory-records.ts';

async function openDatabase(t: TestContext) {
  const opened = await openTestDatabase();
  t.after(() => opened.stop());
  return opened.replicas[0];
}

test('a record is settled that has the External ID of a deleted one', async (t) => {
  const database = await openDatabase(t);
  const crm = new MemoryRecords(() => 0.5);
  const copy = openCopy(database, crm);
  t.after(() => copy.stop());
  const table = new ReaderTable(database);
  await table.prepare();
  const reader = new ChangeReader({
    table,
    source: crm,
    resources: [quote],
    metrics: createMetrics(eventMetrics),
    log: recordLog().log,
    copyWriter: copy.writer,
    pollSeconds: 0.001,
    minimumSeconds: 0.001,
    wake: () => {},
    memberChanged: async () => {},
  });
  const poll = () => reader.check(new AbortController().signal);

  // So long ago that only the first poll reads them.
  const stamp = '2020-01-02T03:04:05.000Z';
  const id = randomUUID();
  crm.change(quote, id, { name: 'there' });
  const there = crm.rows.get(id);
  assert.ok(there);
  crm.rows.set(id, { ...there, stamp });
  crm.rows.set('deleted', { ...there, stamp, nativeId: 'deleted', isDeleted: true });
  await poll();
  await copy.markStale(quote, id);
  await poll();
  const call = { ...startCall('test'), freshness: { maxAgeSeconds: 60 } };
  const found = await copy.records.find(quote, id, call);
  assert.deepEqual(found?.values, there.values);
  assert.notEqual(found?.ageSeconds, undefined, 'the CRM was asked');
});

test('the lease is kept while many records are stale', async (t) => {
  const database = await openDatabase(t);
  const crm = new MemoryRecords(() => 0.5);
  const table = new CopyTable(database, 'fields');
  const options = {
    table,
    resources: [quote],
    source: crm,
    records: crm,
    log: recordLog().log,
    metrics: createMetrics(readCopyMetrics),
  };
  const staleRow = Array.from({ length: 101 }, () => ({ externalId: randomUUID() }));
  await table.write(staleRow.map((known) => rowOf(quote, known, { written: undefined, since: 0 })));
  let kept = 0;
  const fenced: Fenced = (work) => {
    kept += 1;
    return database.sql.transaction().execute(work);
  };
  assert.equal(await new CopySync(options).work(fenced, [quote], new AbortController().signal), false);
  assert.equal(kept, 2);
  assert.deepEqual(await table.staleRecords(['quote'], 1), []);
});

test('while members are not read, what names them grows old', async (t) => {
  const database = await openDatabase(t);
  const crm = new MemoryRecords(() => 0.5);
  const readers = new ReaderTable(database);
  await readers.prepare();
  const { fence } = await readers.take(true);
  const resources = [member, quote];
  const table = new CopyTable(database, 'fields');
  const metrics = createMetrics(readCopyMetrics);
  const sync = new CopySync({ table, resources, source: crm, records: crm, log: recordLog().log, metrics });
  await database.sql.transaction().execute((transaction) => table.reset(transaction, String(fence), {}));
  const complete = (read: typeof resources) =>
    database.sql.transaction().execute((transaction) => sync.complete(transaction, String(fence), read));
  const isServed = async (name: string) => (await table.facts([name])).age !== null;
  await complete([quote]);
  assert.equal(await isServed('quote'), false);
  await complete([member]);
  assert.deepEqual([await isServed('member'), await isServed('quote')], [true, false]);
  await complete(resources);
  assert.equal(await isServed('quote'), true);
});
