import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Locks } from '../../src/base/lock.ts';
import { createRedisCache } from '../../src/cache/redis.ts';
import { CacheUnavailable, type SharedCache } from '../../src/cache/shared-cache.ts';
import { quote } from '../../src/resources/quotes-and-bookings.ts';
import { createDatabaseLocks } from '../../src/store/database-locks.ts';
import { migrate } from '../../src/store/migrate.ts';
import { openPostgres } from '../../src/store/postgres.ts';
import { recordLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { aCall, type Bench, quoteFor, type Replica, startBench } from './bench.ts';

const redis = await startRedis();
const postgres = await startPostgres();
after(async () => {
  await redis?.stop();
  await postgres?.stop();
});

const create = (bench: Bench, { crm }: Replica) =>
  crm.records.create(quote, randomUUID(), quoteFor(bench.memberId), aCall());

/** So many requests at once, by turns to the replicas; all of them must succeed. */
const round = (bench: Bench, replicas: Replica[], times: number) =>
  Promise.all(
    Array.from({ length: times }, (_, index) =>
      create(bench, replicas[index % replicas.length] ?? assert.fail()),
    ),
  );

/** Connections to Redis that are up, one for each replica. */
async function connectCaches(url: string, count: number): Promise<SharedCache[]> {
  const caches = Array.from({ length: count }, () => createRedisCache({ url, log: recordLog().log }));
  for (const cache of caches) {
    while (await cache.checkHealth().catch(() => true)) await delay(5);
  }
  return caches;
}

it('eight replicas that start with hundreds of waiting requests ask once for a token', {
  skip: !redis && 'no redis-server',
}, async () => {
  const caches = await connectCaches((redis as RedisServer).url, 8);
  const [cache = assert.fail()] = caches;
  // An environment of its own, so that no token of another test lies there.
  const bench = await startBench({ cache, environment: 'prod' });
  try {
    const replicas = [bench, ...caches.slice(1).map((other) => bench.addReplica({ cache: other }))];
    await round(bench, replicas, 400);
    assert.equal(await bench.org.calls('token'), 1);
    assert.equal((await bench.org.records('Quote__c')).length, 400);
  } finally {
    for (const each of caches) await each.close();
    await bench.stop();
  }
});

it('replicas with one Redis go on when it dies, each with what it holds, and share again when it is back', {
  skip: !redis && 'no redis-server',
}, async () => {
  let server = (await startRedis()) as RedisServer;
  const caches = await connectCaches(server.url, 3);
  const [cache = assert.fail()] = caches;
  const bench = await startBench({ cache });
  try {
    const replicas = [bench, ...caches.slice(1).map((other) => bench.addReplica({ cache: other }))];
    await round(bench, replicas, 60);
    assert.equal(await bench.org.calls('token'), 1);
    await bench.org.revokeTokens();
    await round(bench, replicas, 60);
    assert.equal(await bench.org.calls('token'), 2);
    await server.stop();
    await round(bench, replicas, 60);
    assert.equal(await bench.org.calls('token'), 2);
    await bench.org.revokeTokens();
    await round(bench, replicas, 60);
    assert.equal(await bench.org.calls('token'), 5);
    server = (await startRedis({ port: Number(new URL(server.url).port) })) as RedisServer;
    for (const each of caches) while (await each.checkHealth().catch(() => true)) await delay(5);
    await round(bench, replicas, 60);
    while ((await cache.get('crm_token:dev')) === undefined) await delay(5);
    await round(bench, replicas, 60);
    assert.equal(await bench.org.calls('token'), 6);
    assert.equal((await bench.org.records('Quote__c')).length, 360);
  } finally {
    for (const each of caches) await each.close();
    await bench.stop();
    await server.stop();
  }
});

it('without Redis replicas ask one after another, under a lock in the database', {
  skip: !postgres && 'no PostgreSQL',
}, async () => {
  const url = postgres?.url ?? '';
  const databases = [1, 2, 3].map(() => openPostgres({ url, log: recordLog().log }));
  const [database = assert.fail()] = databases;
  await migrate(database);
  const away: SharedCache = new Proxy({} as SharedCache, {
    get: () => () => Promise.reject(new CacheUnavailable('away')),
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
  const bench = await startBench({ cache: away, spareLocks: locks[0] ?? assert.fail() });
  try {
    const others = locks.slice(1).map((spareLocks) => bench.addReplica({ spareLocks }));
    const replicas = [bench, ...others];
    for (const asked of [1, 2]) {
      const hold = await bench.org.fault({ kind: 'hold', stage: 'before' }, { operation: 'token' }, 1);
      const answers = round(bench, replicas, 60);
      await bench.org.struck(hold);
      // Whoever holds the lock hangs in the CRM: the two others look for it again and again, and ask nobody.
      while (refusals.filter((count) => count >= 3).length < 2) await delay(5);
      assert.equal(await bench.org.calls('token'), 3 * (asked - 1) + 1);
      await bench.org.release(hold);
      await answers;
      assert.equal(await bench.org.calls('token'), 3 * asked);
      await bench.org.revokeTokens();
      refusals.fill(0);
    }
  } finally {
    await bench.stop();
    for (const each of databases) await each.close();
  }
});
