import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import { changedRow, rowOf } from '../../../src/features/read-copy/copied-row.ts';
import { CopyTable } from '../../../src/features/read-copy/copy-table.ts';
import { member } from '../../../src/records/members.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import { databaseKinds, type TestDatabase } from '../../support/databases.ts';
import { rowsReadIn } from '../../support/rows-read.ts';

const opened = await databaseKinds['PostgreSQL']?.();
const resources = ['member', 'quote', 'booking'];
/** Enough that reading all of them is the worse way. */
const recordsOfEach = 20_000;

describe('of many records no statement on the copy reads more than it needs', { skip: !opened }, () => {
  const { replicas, stop } = opened as TestDatabase;
  const [database] = replicas;
  const table = new CopyTable(database, 'fields');
  let memberId: string;

  before(async () => {
    const reader = new ReaderTable(database);
    await reader.prepare();
    await reader.take(true);
    await database.sql.transaction().execute((transaction) => table.reset(transaction, '1', {}));
    await database.sql
      .transaction()
      .execute((transaction) => table.complete(transaction, '1', { read: resources, isWhole: true }));
    for (const resource of resources)
      await database.execute(`
        insert into copied_records (resource, native_id, external_id, created_at, updated_at, trip_id, member_id,
          consumer_id, status, email, member_native_id, content)
        select '${resource}', '${resource}' || n, md5('${resource}' || n)::uuid, now() - n * interval '1 minute',
          now() - n * interval '1 minute', md5('trip' || n / 4)::uuid, md5('member' || n / 4)::uuid,
          case when '${resource}' = 'quote' then case when n > 18000 then 'con_old' else 'con_' || n % 50 end end, case when n % 10 = 0 then 'confirmed' else 'created' end,
          case when '${resource}' = 'member' then n || '@example.com' end,
          case when '${resource}' <> 'member' then 'member' || n / 4 end, '{}'
        from generate_series(1, ${recordsOfEach}) as n`);
    await database.execute('analyze copied_records');
    const [row] = (await database.execute(`select md5('member7')::uuid as id`)).rows as { id: string }[];
    memberId = row?.id ?? '';
  });
  after(() => stop());

  const externalId = randomUUID();
  const changed = (nativeId: string) =>
    changedRow({
      ...{ resource: member, nativeId, stamp: '', externalId, isDeleted: false },
      values: {
        id: externalId,
        created_at: '2027-03-01T08:00:00.000Z',
        updated_at: '2027-03-01T08:00:00.000Z',
      },
    });
  const list = (resource: string, filters: object, updatedSince?: string) =>
    table.list({
      ...{ resource, filters: filters as Record<string, string>, limit: 50, maxBytes: 1_000_000 },
      ...(updatedSince !== undefined && { updatedSince }),
    });
  const recent = new Date(Date.now() - 600_000).toISOString();
  const statements: Record<string, () => Promise<unknown>> = {
    'a look-up': () => table.find([{ resource: 'quote', externalId }]),
    'a list': () => list('quote', {}),
    'a list of what has no maker': () => list('member', {}),
    'a list of members by address': () => list('member', { email: '7@example.com' }),
    'a list of a trip': () => list('quote', { trip_id: externalId }),
    'a list of a member': () => list('booking', { member_id: externalId }),
    'a list of a consumer': () => list('quote', { consumer_id: 'con_7' }),
    'a list by status': () => list('quote', { status: 'confirmed' }),
    'a list of what has changed': () => list('quote', {}, recent),
    'a list of what has changed of a consumer': () => list('quote', { consumer_id: 'con_7' }, recent),
    'a list of what has changed of a consumer that made nothing new': () =>
      list('quote', { consumer_id: 'con_old' }, new Date(Date.now() - 12_000 * 60_000).toISOString()),
    'a write': () =>
      table.write([
        rowOf(quote, { nativeId: 'quote9', externalId }, { written: 'gone', since: performance.now() }),
      ]),
    'a page of the reader': () => table.keep(database.sql, [changed('member9'), changed('new')]),
    'members that changed': () => table.follow(database.sql, [changed('member9')]),
    'a stale mark': () => table.markStale({ resource: 'member', externalId: memberId }),
    'the stale records': () => table.staleRecords(resources, 1000),
    'an erasure': () => table.eraseMember(memberId),
    'the clearing': () => table.clearDeleted(),
  };
  for (const [name, run] of Object.entries(statements))
    test(name, async () => {
      const before = await rowsReadIn(database, 'copied_records');
      await run();
      const read = (await rowsReadIn(database, 'copied_records')) - before;
      assert.ok(read < 500, `${read} rows`);
    });
});
