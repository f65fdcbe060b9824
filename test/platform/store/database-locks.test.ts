import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Locks } from '../../../src/platform/base/lock.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { createDatabaseLocks } from '../../../src/platform/store/database-locks.ts';
import { migrate } from '../../../src/platform/store/migrate.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { locksConformance } from '../../conformance/locks.ts';
import { openTestPglite, type TestDatabase } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';
import { startPostgres } from '../../support/postgres.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

describe('locks in PGlite', () => {
  let opened: TestDatabase;
  let locks: Locks;
  before(async () => {
    opened = await openTestPglite();
    locks = createDatabaseLocks(opened.replicas[0]);
  });
  after(() => opened.stop());
  locksConformance(() => ({ locks, elapse: (ms) => delay(ms) }));
});

const server = await startPostgres();

describe('locks in PostgreSQL', { skip: server === undefined && 'no PostgreSQL' }, () => {
  const url = server?.url ?? '';
  let database: Database;
  let locks: Locks;
  before(async () => {
    database = openPostgres({ url, log: recordLog().log });
    await migrate(database);
    locks = createDatabaseLocks(database);
  });
  after(async () => {
    await database.close();
    await server?.stop();
  });
  locksConformance(() => ({ locks, elapse: (ms) => delay(ms) }));

  it('fails soon where the database does not answer, and gives back what it got too late', async (t) => {
    const proxy = await startTcpProxy(url);
    const slow = openPostgres({ url: proxy.url, log: recordLog().log });
    t.after(async () => {
      await slow.close();
      await proxy.close();
    });
    const hold = proxy.holdAnswers('insert into locks');
    await assert.rejects(createDatabaseLocks(slow).acquireLock('late', 60_000), /too slow/);
    assert.equal(await locks.acquireLock('late', 60_000), undefined);
    hold.release();
    await eventually(async () => assert.notEqual(await locks.acquireLock('late', 60_000), undefined), {
      everyMs: 5,
    });
  });
});
