import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createRedisCache } from '../../src/cache/redis.ts';
import { quote } from '../../src/resources/quotes-and-bookings.ts';
import { recordLog } from '../support/log.ts';
import { startRedis } from '../support/redis.ts';
import { aCall, quoteFor, startBench } from './bench.ts';

const redis = await startRedis();

it('replicas with one Redis ask once for a token, and go on when it dies', {
  skip: !redis && 'no redis-server',
}, async () => {
  if (redis === undefined) return;
  const caches = [1, 2, 3].map(() => createRedisCache({ url: redis.url, log: recordLog().log }));
  for (const cache of caches) {
    while (
      !(await cache.checkHealth().then(
        () => true,
        () => false,
      ))
    )
      await delay(5);
  }
  const [cache = assert.fail()] = caches;
  const bench = await startBench({ cache });
  try {
    const replicas = [bench, ...caches.slice(1).map((other) => bench.addReplica({ cache: other }))];
    const round = () =>
      Promise.all(
        Array.from({ length: 60 }, (_, index) =>
          (replicas[index % 3] ?? bench).crm.records.create(
            quote,
            randomUUID(),
            quoteFor(bench.memberId),
            aCall(),
          ),
        ),
      );
    await round();
    assert.equal(await bench.org.calls('token'), 1);
    await bench.org.revokeTokens();
    await round();
    assert.equal(await bench.org.calls('token'), 2);
    await redis.stop();
    await round();
    assert.equal(await bench.org.calls('token'), 2);
    await bench.org.revokeTokens();
    await round();
    assert.equal(await bench.org.calls('token'), 5);
    assert.equal((await bench.org.records('Quote__c')).length, 240);
  } finally {
    for (const each of caches) await each.close();
    await bench.stop();
    await redis.stop();
  }
});
