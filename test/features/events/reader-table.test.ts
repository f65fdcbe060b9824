import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { KnownIds } from '../../../src/features/events/known-ids.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { databaseKinds, useTestDatabase } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';

test('a reader that stands still while it stores what it has read is replaced all the same', async (t) => {
  const database = await databaseKinds['PostgreSQL']?.(2);
  if (!database) return t.skip('there is no PostgreSQL');
  t.after(database.stop);
  const [replica, another] = database.replicas as [Database, Database];
  const [one, other] = [new ReaderTable(replica), new ReaderTable(another)];
  await one.prepare();
  const { fence } = await one.take(true);
  await sql`update change_reader set lease_until = now()`.execute(replica.sql);
  const standsStill = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const stored = one
    .fenced(fence ?? assert.fail(), () => {
      standsStill.resolve();
      return goOn.promise;
    })
    .then(
      () => 'stored',
      () => 'not stored',
    );
  await standsStill.promise;
  // As long as the row is locked it fails.
  await eventually(async () => assert.ok((await other.take(true).catch(() => undefined))?.fence), {
    everyMs: 50,
  });
  goOn.resolve();
  assert.equal(await stored, 'not stored');
});

test('of an id that is lost again before the poll has ended, what was reported last counts', async (t) => {
  const database = await databaseKinds['PostgreSQL']?.();
  if (!database) return t.skip('there is no PostgreSQL');
  t.after(database.stop);
  const table = new ReaderTable(database.replicas[0]);
  await table.prepare();
  const { fence } = await table.take(true);
  const lost = { resource: 'quote', externalId: 'id', consumerId: null, lostAt: '2027-01-01T00:00:00.000Z' };
  const another = { ...lost, nativeId: 'another', content: 'newer', parts: null, isDeleted: false };
  const store = (ids: KnownIds) =>
    table.store(fence ?? assert.fail(), { changes: ids.changes(), events: [], positions: new Map() });
  const first = new KnownIds({ records: [], pending: [] });
  first.addPending({ ...lost, content: 'older' });
  await store(first);
  const next = new KnownIds(await table.known([another]));
  assert.equal(next.announced(another)?.content, 'older');
  next.set(another);
  next.set({ ...another, isDeleted: true });
  next.addPending({ ...lost, content: 'newer' });
  await store(next);
  assert.equal(new KnownIds(await table.known([another])).announced(another)?.content, 'newer');
});

describe('the table of the reader', () => {
  const opened = useTestDatabase();

  test('is for one reader at a time, when a poll is due, or may begin and is wanted', async () => {
    const { sql: queries } = opened.replicas[0];
    const table = new ReaderTable(opened.replicas[0]);
    await table.prepare();
    for (let n = 0; n < 16; n++) {
      const [isFree, isDue, mayBegin, isWanted] = [1, 2, 4, 8].map((bit) => (n & bit) > 0);
      const at = (isPast: boolean | undefined) => sql`now() + make_interval(mins => ${isPast ? -1 : 1})`;
      await sql`
        update change_reader set lease_until = ${at(isFree)}, due_at = ${at(isDue)}, not_before = ${at(mayBegin)}`.execute(
        queries,
      );
      const { fence } = await table.take(isWanted === true);
      const isTaken = isFree && (isDue || (mayBegin && isWanted));
      assert.equal(fence !== null, isTaken, JSON.stringify({ isFree, isDue, mayBegin, isWanted }));
    }
  });

  test('forgets what one member was like, and what was deleted long ago, and nothing else', async () => {
    const { sql: queries } = opened.replicas[0];
    const table = new ReaderTable(opened.replicas[0]);
    await sql`
      insert into known_records (resource, native_id, external_id, content, is_deleted, seen_at)
      select resource, id, id, 'content', is_deleted, now() - make_interval(days => age)
      from (values ('member', 'one', false, 40), ('member', 'other', false, 40), ('quote', 'old', true, 40),
        ('quote', 'young', true, 20)) as given (resource, id, is_deleted, age)`.execute(queries);
    const left = async () =>
      (
        await sql<{ id: string; content: string }>`
          select external_id as id, content from known_records order by native_id`.execute(queries)
      ).rows.map(({ id, content }) => `${id} ${content}`);
    assert.equal(await table.eraseMember('one'), 1);
    assert.equal(await table.forgetDeleted(30), 1);
    assert.deepEqual(await left(), ['one ', 'other content', 'young content']);
  });
});
