import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { ReaderTable } from '../../src/changes/reader-table.ts';
import type { Database } from '../../src/store/database.ts';
import { databaseKinds } from '../support/databases.ts';

test('a reader that stands still while it stores what it has read is replaced all the same', async (t) => {
  const database = await databaseKinds['PostgreSQL']?.(2);
  if (!database) return t.skip('there is no PostgreSQL');
  t.after(database.stop);
  const [replica, another] = database.replicas as [Database, Database];
  const [one, other] = [new ReaderTable(replica), new ReaderTable(another)];
  await one.prepare();
  const { fence } = await one.take(true, false);
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
  while (!(await other.take(true, false).catch(() => undefined))?.fence) await sleep(50);
  goOn.resolve();
  assert.equal(await stored, 'not stored');
});
