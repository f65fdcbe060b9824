import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { KnownIds } from '../../../src/features/events/known-ids.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { databaseKinds } from '../../support/databases.ts';
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
