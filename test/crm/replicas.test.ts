import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, it } from 'node:test';
import type { Locks } from '../../src/platform/base/lock.ts';
import { createRedisCache } from '../../src/platform/cache/redis.ts';
import { CacheUnavailable, type SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { createDatabaseLocks } from '../../src/platform/store/database-locks.ts';
import { migrate } from '../../src/platform/store/migrate.ts';
import { openPostgres } from '../../src/platform/store/postgres.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { eventually } from '../support/eventually.ts';
import { recordLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { aCall, type CrmHarness, quoteFor, type Replica, startCrmHarness } from './crm-harness.ts';

const redis = await startRedis();
const postgres = await startPostgres();
after(async () => {
  await redis?.stop();
  await postgres?.stop();
});

const create = (harness: CrmHarness, { crm }: Replica) =>
  crm.records.create(quote, randomUUID(), quoteFor(harness.memberId), aCall());

/** So many requests at once, alternating between the replicas; all of them must succeed. */
const round = (harness: CrmHarness, replicas: Replica[], times: number) =>
  Promise.all(
    Array.from({ length: times }, (_, index) =>
      create(harness, replicas[index % replicas.length] ?? assert.fail()),
    ),
  );

/** Connections to Redis that are up, one for each replica. */
async function connectCaches(url: string, count: number): Promise<SharedCache[]> {
  const caches = Array.from({ length: count }, () => createRedisCache({ url, log: recordLog().log }));
  for (const cache of caches) {
    await eventually(async () => assert.ok(!(await cache.checkHealth().catch(() => true))), { everyMs: 5 });
  }
  return caches;
}

it('eight replicas that start with hundreds of waiting requests ask once for a token', {
  skip: !redis && 'no redis-server',
}, async (t) => {
  const caches = await connectCaches((redis as RedisServer).url, 8);
  const [cache = assert.fail()] = caches;
  // An environment of its own, so that no token of another test lies there.
  const harness = await startCrmHarness({ cache, environment: 'prod' });
  t.after(async () => {
    for (const each of caches) await each.close();
    await harness.stop();
  });
  const replicas = [harness, ...caches.slice(1).map((other) => harness.addReplica({ cache: other }))];
  await round(harness, replicas, 400);
  assert.equal(await harness.org.calls('token'), 1);
  assert.equal((await harness.org.records('Quote__c')).length, 400);
});

it('replicas with one Redis go on when it dies, each with what it holds, and share again when it is back', {
  skip: !redis && 'no redis-server',
}, async (t) => {
  let server = (await startRedis()) as RedisServer;
  const caches = await connectCaches(server.url, 3);
  const [cache = assert.fail()] = caches;
  const harness = await startCrmHarness({ cache });
  t.after(async () => {
    for (const each of caches) await each.close();
    await harness.stop();
    await server.stop();
  });
  const replicas = [harness, ...caches.slice(1).map((other) => harness.addReplica({ cache: other }))];
  await round(harness, replicas, 60);
  assert.equal(await harness.org.calls('token'), 1);
  await harness.org.revokeTokens();
  await round(harness, replicas, 60);
  assert.equal(await harness.org.calls('token'), 2);
  await server.stop();
  await round(harness, replicas, 60);
  assert.equal(await harness.org.calls('token'), 2);
  await harness.org.revokeTokens();
  await round(harness, replicas, 60);
  assert.equal(await harness.org.calls('token'), 5);
  server = (await startRedis({ port: Number(new URL(server.url).port) })) as RedisServer;
  for (const each of caches)
    await eventually(async () => assert.ok(!(await each.checkHealth().catch(() => true))), { everyMs: 5 });
  await round(harness, replicas, 60);
  await eventually(async () => assert.notEqual(await cache.get('crm_token:dev'), undefined), {
    everyMs: 5,
  });
  await round(harness, replicas, 60);
  assert.equal(await harness.org.calls('token'), 5);
  assert.equal((await harness.org.records('Quote__c')).length, 360);
});

it('without Redis replicas ask one after another, under a lock in the database', {
  skip: !postgres && 'no PostgreSQL',
}, async (t) => {
  const url = postgres?.url ?? '';
  const databases = [1, 2, 3].map(() => openPostgres({ url, log: recordLog().log }));
  const [database = assert.fail()] = databases;
  await migrate(database);
  const unavailable: SharedCache = new Proxy({} as SharedCache, {
    get: () => () => Promise.reject(new CacheUnavailable('unavailable')),
  });
  const refusals = databases.map(() => 0);
  const locks = databases.map((each, index): Locks => {
    const { acquireLock } = createDatabaseLocks(each);
    return {
      async acquireLock(key, ttlMs) {
        const lock = await acquireLock(key, ttlMs);
        if (lock === undefined) refusals[index] = (refusals[index] ?? 0) + 1;
        return lock;
      },
    };
  });
  const harness = await startCrmHarness({ cache: unavailable, spareLocks: locks[0] ?? assert.fail() });
  t.after(async () => {
    await harness.stop();
    for (const each of databases) await each.close();
  });
  const others = locks.slice(1).map((spareLocks) => harness.addReplica({ spareLocks }));
  const replicas = [harness, ...others];
  for (const asked of [1, 2]) {
    const hold = await harness.org.fault({ kind: 'hold', stage: 'before' }, { operation: 'token' }, 1);
    const answers = round(harness, replicas, 60);
    await harness.org.struck(hold);
    // The one that holds the lock hangs in the CRM: the two others look for it again and again, and ask nobody.
    await eventually(() => assert.ok(refusals.filter((count) => count >= 3).length >= 2), { everyMs: 5 });
    assert.equal(await harness.org.calls('token'), 3 * (asked - 1) + 1);
    await harness.org.release(hold);
    await answers;
    assert.equal(await harness.org.calls('token'), 3 * asked);
    await harness.org.revokeTokens();
    refusals.fill(0);
  }
});
