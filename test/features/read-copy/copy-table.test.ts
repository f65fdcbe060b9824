import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CompiledQuery, sql } from 'kysely';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import { changedRow, rowOf } from '../../../src/features/read-copy/copied-row.ts';
import { CopyTable } from '../../../src/features/read-copy/copy-table.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import type { ChangedRecord } from '../../../src/records/changes.ts';
import { member } from '../../../src/records/members.ts';
import { databaseKinds, openTestDatabase } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';
import { executedBy } from '../../support/executed-by.ts';
import { keepNow } from './support.ts';

const stamp = '2027-03-01T08:00:00.000Z';

function aMember(): ChangedRecord {
  const externalId = randomUUID();
  const values = { id: externalId, created_at: stamp, updated_at: stamp, email: 'ana@example.com' };
  return { resource: member, nativeId: `id ${externalId}`, stamp, externalId, isDeleted: false, values };
}

/** A table with a reader that has begun a poll. */
async function openTable(database: Database): Promise<CopyTable> {
  const reader = new ReaderTable(database);
  await reader.prepare();
  await reader.take(true);
  return new CopyTable(database, 'fields');
}

test('of a record that the reader sees deleted nothing personal is left', async (t) => {
  const { replicas, stop } = await openTestDatabase();
  t.after(stop);
  const table = await openTable(replicas[0]);
  const record = aMember();
  await table.keep(replicas[0].sql, [changedRow(record)]);
  await table.keep(replicas[0].sql, [changedRow({ ...record, isDeleted: true })]);
  const { rows } = await sql<object>`select is_deleted, content, email from copied_records`.execute(
    replicas[0].sql,
  );
  assert.deepEqual(rows, [{ is_deleted: true, content: '', email: null }]);
});

test('the copy can be dropped while a page of the fill is stored', async (t) => {
  const database = await databaseKinds['PostgreSQL']?.(2);
  if (!database) return t.skip('there is no PostgreSQL');
  t.after(database.stop);
  const [one, two] = database.replicas as [Database, Database];
  const table = await openTable(one);
  await one.sql.transaction().execute((transaction) => table.reset(transaction, '1', {}));
  const isWaiting = async () => {
    const { rows } = await sql`select from pg_locks where not granted
      and database = (select oid from pg_database where datname = current_database())`.execute(two.sql);
    return rows.length > 0;
  };
  let dropped: Promise<void> | undefined;
  await one.bulk.transaction().execute(async (transaction) => {
    await table.keep(transaction, [changedRow(aMember())]);
    dropped = new CopyTable(two, '').drop();
    await eventually(async () => assert.ok(await isWaiting()), { everyMs: 5 });
    await table.move(transaction, { quote: { stamp } });
  });
  await dropped;
  assert.equal(await table.state(), undefined);
});

/** What a write of the service leaves behind that began just now. */
function aWrite({ nativeId, externalId = '', values }: ChangedRecord, name: string | undefined) {
  const known = { nativeId, externalId };
  const written =
    name === undefined ? ('gone' as const) : { nativeId, values: { ...values, last_name: name } };
  return rowOf(member, known, { written, since: performance.now() });
}

async function nameOf(table: CopyTable, { externalId = '' }: ChangedRecord): Promise<string | undefined> {
  const [{ rows = [] } = {}] = await table.find([{ resource: 'member', externalId }]);
  const [row, another] = rows;
  assert.equal(another, undefined);
  if (row === undefined) return 'gone';
  return row.is_stale ? 'stale' : JSON.parse(row.content).last_name;
}

/** Makes the table answer. */
async function fill(database: Database, table: CopyTable): Promise<void> {
  await database.bulk.transaction().execute((transaction) => table.reset(transaction, '1', {}));
  await keepNow(database, 'member');
}

test('a write whose statement reaches the database late puts no older state over a newer one', async (t) => {
  const { replicas, stop } = await openTestDatabase();
  t.after(stop);
  const [database] = replicas;
  const table = await openTable(database);
  await fill(database, table);
  const record = aMember();
  const late: CompiledQuery[] = [];
  const executeQuery = (query: CompiledQuery) => {
    if (!query.sql.includes('insert into copied_records')) return database.sql.executeQuery(query);
    late.push(query);
    return Promise.reject(new Error('no answer'));
  };
  const broken = executedBy(database.sql, executeQuery);
  await assert.rejects(
    new CopyTable({ ...database, sql: broken }, 'fields').write([aWrite(record, 'older')]),
  );
  await table.write([aWrite(record, 'newer')]);
  // As long as a request waits for an answer, and longer.
  await sleep(2600);
  for (const query of late) await database.sql.executeQuery(query);
  assert.equal(late.length, 1);
  assert.equal(await nameOf(table, record), 'stale');
});

test('a deletion that is answered late leaves a record stale that was seen meanwhile', async (t) => {
  const { replicas, stop } = await openTestDatabase();
  t.after(stop);
  const [database] = replicas;
  const table = await openTable(database);
  await fill(database, table);
  const record = aMember();
  const deletion = aWrite(record, undefined);
  // Somebody has taken it out of the recycle bin again.
  await table.keep(database.sql, [changedRow(record)]);
  await table.write([deletion]);
  assert.equal(await nameOf(table, record), 'stale');
  // The table takes the database's clock for some milliseconds behind: one that certainly began after the first.
  const { rows } = await sql<{ since: string }>`select clock_timestamp()::text as since`.execute(
    database.sql,
  );
  await table.write([{ ...deletion, ...rows[0] }]);
  assert.equal(await nameOf(table, record), 'gone');
});

test('nothing is read of the records of others', async (t) => {
  const { replicas, stop } = await openTestDatabase();
  t.after(stop);
  const table = await openTable(replicas[0]);
  await fill(replicas[0], table);
  const { externalId = '', ...rest } = aMember();
  const values = { ...rest.values, consumer_id: 'con_A' };
  await table.keep(replicas[0].sql, [changedRow({ ...rest, externalId, values })]);
  const key = { resource: 'member', externalId };
  const found = await table.find([{ ...key, madeBy: 'con_B' }, { ...key, madeBy: 'con_A' }, key]);
  assert.deepEqual(
    found.map((one) => one?.rows.length),
    [0, 1, 1],
  );
});
