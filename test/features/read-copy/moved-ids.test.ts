import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type CompiledQuery, sql } from 'kysely';
import type { Fenced } from '../../../src/features/events/copy-writer.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import { type CopiedRow, changedRow, rowOf, staleRow } from '../../../src/features/read-copy/copied-row.ts';
import { CopySync } from '../../../src/features/read-copy/copy-sync.ts';
import { CopyTable } from '../../../src/features/read-copy/copy-table.ts';
import { readCopyMetrics } from '../../../src/features/read-copy/metrics.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import type { FieldValues, StoredRecord } from '../../../src/records/records.ts';
import { openTestDatabase, type TestDatabase } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';
import { executedBy } from '../../support/executed-by.ts';
import { recordLog } from '../../support/log.ts';
import { openCopy } from './memory-copy.ts';
import { MemoryRecords } from './memory-records.ts';
import { keepNow } from './support.ts';

const [early, late] = ['2027-03-01T08:00:00.000Z', '2027-03-01T08:00:05.000Z'];

let opened: TestDatabase;
let database: Database;
let table: CopyTable;
/** External IDs. */
let [id, other] = ['', ''];

before(async () => {
  opened = await openTestDatabase();
  [database] = opened.replicas;
  const reader = new ReaderTable(database);
  await reader.prepare();
  await reader.take(true);
  table = new CopyTable(database, 'fields');
});
after(() => opened.stop());

/** The copy is complete and empty, and a poll of the reader begins. */
beforeEach(async () => {
  [id, other] = [randomUUID(), randomUUID()];
  await sql`truncate copied_records`.execute(database.sql);
  await database.bulk.transaction().execute((transaction) => table.reset(transaction, '1', {}));
  await keepNow(database, 'quote');
  await startPoll();
});

async function startPoll(): Promise<void> {
  await sql`update change_reader set polled_at = clock_timestamp()`.execute(database.sql);
}

function stored(nativeId: string, externalId: string, at = early): StoredRecord {
  const empty: FieldValues = Object.fromEntries(Object.keys(quote.fields).map((name) => [name, null]));
  return {
    nativeId,
    values: { ...empty, id: externalId, name: `${nativeId} at ${at}`, created_at: early, updated_at: at },
  };
}

/** As the reader has read it. */
function page(...record: Parameters<typeof stored>): CopiedRow {
  const [, externalId, stamp = early] = record;
  return changedRow({ resource: quote, externalId, isDeleted: false, stamp, ...stored(...record) });
}

/** As a write that begins now reads it back. */
function note(...record: Parameters<typeof stored>): CopiedRow {
  return rowOf(quote, {}, { written: stored(...record), since: performance.now() });
}

/** What a read by External ID finds: the CRM's own id of the record, or that the CRM has to be asked. */
async function found(externalId: string): Promise<string> {
  const [{ rows = [] } = {}] = await table.find([{ resource: 'quote', externalId }]);
  const [row, another] = rows;
  if (another !== undefined || row?.is_stale) return 'ask';
  return row?.native_id ?? 'none';
}

async function listed(): Promise<string[] | 'ask'> {
  const list = await table.list({ resource: 'quote', filters: {}, limit: 9, maxBytes: 1e6 });
  assert.ok(list);
  return list.hasStale ? 'ask' : list.rows.map(({ native_id }) => native_id).sort();
}

/** Asks the CRM, which has these records, for the stale ones. */
async function settle(...records: StoredRecord[]): Promise<void> {
  const copyWriter = new CopySync({
    table,
    resources: [quote],
    source: new MemoryRecords(() => 0),
    log: recordLog().log,
    records: { find: async (_, externalId) => records.find(({ values }) => values['id'] === externalId) },
    metrics: createMetrics(readCopyMetrics),
  });
  const fenced: Fenced = (work) => database.bulk.transaction().execute(work);
  await copyWriter.work(fenced, [quote], new AbortController().signal);
}

describe('of a record whose External ID may be one of two, the CRM is asked for both', () => {
  test('where a write under its former one is noted late', async () => {
    const former = staleRow(note('one', other));
    await table.keep(database.sql, [page('one', id)]);
    await table.write([former]);
    assert.deepEqual([await found(id), await found(other), await listed()], ['ask', 'ask', 'ask']);
    await settle(stored('one', id));
    assert.deepEqual([await found(id), await found(other), await listed()], ['one', 'none', ['one']]);
  });

  test('where the page of a poll is from the second of a write', async () => {
    await table.write([note('one', id)]);
    await table.keep(database.sql, [page('one', other)]);
    assert.deepEqual([await found(id), await found(other)], ['ask', 'ask']);
    await settle(stored('one', id));
    assert.deepEqual([await found(id), await found(other)], ['one', 'none']);
  });

  test('where two writes of one second overtake each other', async () => {
    const first = note('one', other);
    await table.write([note('one', id)]);
    await table.write([{ ...first, values: { ...first.values, name: 'first' } }]);
    assert.deepEqual([await found(id), await found(other)], ['ask', 'ask']);
  });

  test('where another record has taken the former one since the poll began', async () => {
    await table.keep(database.sql, [page('one', id)]);
    await startPoll();
    await table.write([note('two', id, late)]);
    await table.keep(database.sql, [page('one', other, late)]);
    assert.deepEqual([await found(id), await found(other)], ['ask', 'ask']);
    await settle(stored('one', other, late), stored('two', id, late));
    assert.deepEqual([await found(id), await found(other)], ['two', 'one']);
    assert.deepEqual(await listed(), ['one', 'two']);
  });

  test('where it is stale again while it is refreshed', async () => {
    await table.write([staleRow(note('one', id))]);
    await table.write([staleRow(note('one', other))]);
    const records = [stored('one', other)];
    const keeping = settle(...records);
    await table.write([staleRow(note('one', id))]);
    await keeping;
    await settle(...records);
    await settle(...records);
    assert.deepEqual([await found(id), await found(other)], ['none', 'one']);
  });
});

describe('of two records with one External ID', () => {
  test('neither is listed where both were noted or read at once', async () => {
    await table.keep(database.sql, [page('one', id), page('two', id, late)]);
    assert.deepEqual([await found(id), await listed()], ['ask', 'ask']);
    await settle(stored('two', id, late));
    assert.deepEqual([await found(id), await listed()], ['two', ['two']]);
    await table.write([note('one', other), note('three', other, late)]);
    assert.deepEqual([await found(other), await listed()], ['ask', 'ask']);
  });

  test('neither is listed where a newer state of one and the other one are known', async () => {
    await table.write([note('one', id, late)]);
    await table.keep(database.sql, [page('one', other), page('two', id)]);
    assert.deepEqual([await found(id), await listed()], ['ask', 'ask']);
    // The other one is stale once this one is read.
    for (let round = 0; round < 2; round++) await settle(stored('one', id, late));
    assert.deepEqual([await found(id), await listed()], ['one', ['one']]);
  });
});

test('a record that has no External ID any more when a write reads it back is gone', async () => {
  await table.keep(database.sql, [page('one', id)]);
  const { nativeId, values } = stored('one', id, late);
  const written = { nativeId, values: { ...values, id: null } };
  await table.write([rowOf(quote, { nativeId, externalId: id }, { written, since: performance.now() })]);
  await settle();
  assert.deepEqual([await found(id), await listed()], ['none', []]);
});

test('of two writes that could not be noted, the CRM is asked for the External IDs of both', async (t) => {
  let isCut = true;
  const executeQuery = (query: CompiledQuery) =>
    isCut ? Promise.reject(new Error('cut')) : database.sql.executeQuery(query);
  const cut = executedBy(database.sql, executeQuery);
  const answers = [stored('one', id, late), stored('one', other)];
  const crm = new MemoryRecords(() => 0);
  crm.updateAndRead = async () => answers.shift();
  const copy = openCopy({ ...database, sql: cut }, crm);
  t.after(() => copy.stop());
  const before = stored('one', other);
  // The notes fail in the order of the answers: the one of the newer write first.
  for (let writes = 0; writes < 2; writes++)
    await copy.records.updateAndRead(quote, before, { name: 'n' }, startCall('test'));
  isCut = false;
  await eventually(async () => assert.notEqual(await found(other), 'none'));
  assert.deepEqual([await found(id), await found(other)], ['ask', 'ask']);
});
