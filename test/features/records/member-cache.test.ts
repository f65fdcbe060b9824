import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMemberCache, recordMetrics } from '../../../src/features/records/member-cache.ts';
import { createMemoryCache } from '../../../src/platform/cache/memory.ts';
import { createRedisCache } from '../../../src/platform/cache/redis.ts';
import { CacheUnavailable, type SharedCache } from '../../../src/platform/cache/shared-cache.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { member } from '../../../src/records/members.ts';
import type { MemberCache } from '../../../src/records/offers.ts';
import type { StoredRecord } from '../../../src/records/records.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';
import { type RedisServer, startRedis } from '../../support/redis.ts';

const redis: RedisServer | undefined = await startRedis();
after(() => redis?.stop());

/** A member as the CRM has it, in a version of its own. */
function memberCalled(name: string): StoredRecord {
  const values = Object.fromEntries(Object.keys(member.fields).map((field) => [field, null]));
  return { nativeId: 'x', values: { ...values, last_name: name } };
}

const openers: Record<string, () => Promise<SharedCache>> = {
  memory: async () => createMemoryCache(),
  Redis: async () => {
    const cache = createRedisCache({ url: redis?.url as string, log: recordLog().log });
    await eventually(
      async () =>
        assert.ok(
          await cache.checkHealth().then(
            () => true,
            () => false,
          ),
        ),
      { everyMs: 5 },
    );
    return cache;
  },
};

for (const [name, open] of Object.entries(openers)) {
  describe(`the member cache in ${name}`, { skip: name === 'Redis' && !redis && 'no redis-server' }, () => {
    let cache: SharedCache;
    let replicas: MemberCache[];
    const metrics = createMetrics(recordMetrics);

    before(async () => {
      cache = await open();
      const scope = randomUUID();
      replicas = [1, 2].map(() => createMemberCache({ member, cache, scope, seconds: 300, metrics }));
    });
    after(() => cache.close());

    const nameOf = (record: StoredRecord | undefined) => record?.values['last_name'];
    /** Reads through a replica; what the CRM says is `current`. */
    const read = async (id: string, current: string | undefined, replica = 0) => {
      let isFetched = false;
      const record = await replicas[replica]?.find(id, async () => {
        isFetched = true;
        return current === undefined ? undefined : memberCalled(current);
      });
      return [nameOf(record), isFetched ? 'fetched' : 'cached'];
    };
    /** A read whose answer of the CRM is under way until `finish`. */
    const slowRead = async (id: string, current: string, replica = 0) => {
      const began = Promise.withResolvers<void>();
      const answer = Promise.withResolvers<StoredRecord>();
      const done = (replicas[replica] as MemberCache).find(id, () => {
        began.resolve();
        return answer.promise;
      });
      await began.promise;
      return async () => {
        answer.resolve(memberCalled(current));
        return nameOf(await done);
      };
    };

    test('serves what one replica has read to all, until it is dropped', async () => {
      const id = randomUUID();
      assert.deepEqual(await read(id, 'Old'), ['Old', 'fetched']);
      assert.deepEqual(await read(id, 'New', 1), ['Old', 'cached']);
      await replicas[1]?.drop(id, Date.now());
      assert.deepEqual(await read(id, 'New'), ['New', 'fetched']);
      assert.deepEqual(await read(id, 'Newer'), ['New', 'cached']);
    });

    test('stores nothing that was read before a drop', async () => {
      const id = randomUUID();
      const finish = await slowRead(id, 'Old');
      await replicas[1]?.drop(id, Date.now());
      assert.equal(await finish(), 'Old');
      assert.deepEqual(await read(id, 'New'), ['New', 'fetched']);
    });

    test('stores nothing that was read before a drop, no matter who reads after it', async () => {
      const id = randomUUID();
      const finishOld = await slowRead(id, 'Old');
      await replicas[1]?.drop(id, Date.now());
      const finishNew = await slowRead(id, 'New', 1);
      await finishOld();
      assert.deepEqual(await read(id, 'New'), ['New', 'fetched']);
      await finishNew();
      assert.deepEqual(await read(id, 'Newer', 1), ['New', 'cached']);
    });

    test('keeps no absence and no failure, and makes room again', async () => {
      const id = randomUUID();
      assert.deepEqual(await read(id, undefined), [undefined, 'fetched']);
      const failing = replicas[0]?.find(id, () => Promise.reject(new Error('the CRM is down')));
      await assert.rejects(failing as Promise<unknown>, /the CRM is down/);
      assert.deepEqual(await read(id, 'New'), ['New', 'fetched']);
      assert.deepEqual(await read(id, 'Newer'), ['New', 'cached']);
    });

    test('takes what it cannot read, or what lacks a field, for nothing', async () => {
      const scope = randomUUID();
      const one = createMemberCache({ member, cache, scope, seconds: 300, metrics });
      for (const held of ['{', '{}', '{"values":{"id":"x"}}', 'other', '{"values":null}']) {
        const id = randomUUID();
        await cache.set(`member:${scope}:${id}`, held, 60_000);
        assert.equal(nameOf(await one.find(id, async () => memberCalled('New'))), 'New', held);
        assert.equal(nameOf(await one.find(id, async () => memberCalled('Newer'))), 'New', held);
      }
    });

    test('keeps a member no longer than the given time, from when the read began', async () => {
      const one = createMemberCache({ member, cache, scope: randomUUID(), seconds: 0.2, metrics });
      const id = randomUUID();
      const slow = await one.find(id, () => sleep(300, memberCalled('Slow')));
      assert.equal(nameOf(slow), 'Slow');
      assert.equal(nameOf(await one.find(id, async () => memberCalled('New'))), 'New');
      await sleep(250);
      assert.equal(nameOf(await one.find(id, async () => memberCalled('Newer'))), 'Newer');
    });

    test('reads again what is too old for a request, and keeps it for others where that fails', async () => {
      let time = Date.now();
      const scope = randomUUID();
      const one = createMemberCache({ member, cache, scope, seconds: 300, metrics, clock: () => time });
      const id = randomUUID();
      const found = (name: string, maxAge?: number) => one.find(id, async () => memberCalled(name), maxAge);
      assert.equal((await found('Old'))?.ageSeconds, undefined);
      time += 12_000;
      const held = await found('New', 12);
      assert.deepEqual([nameOf(held), held?.ageSeconds], ['Old', 12]);
      await assert.rejects(
        one.find(id, () => Promise.reject(new Error('the CRM is down')), 2),
        /is down/,
      );
      assert.equal(nameOf(await found('New')), 'Old');
      const read = await found('New', 2);
      assert.deepEqual([nameOf(read), read?.ageSeconds], ['New', undefined]);
      assert.equal(nameOf(await found('Newer')), 'New');
      time += 3000;
      // Dropped while it is read again: nothing is stored.
      const dropped = one.find(id, () => one.drop(id, time).then(() => memberCalled('Newer')), 2);
      assert.equal(nameOf(await dropped), 'Newer');
      assert.equal(nameOf(await found('Newest')), 'Newest');
    });

    test('is off with 0 seconds', async () => {
      const one = createMemberCache({ member, cache, scope: randomUUID(), seconds: 0, metrics });
      const id = randomUUID();
      await one.find(id, async () => memberCalled('Old'));
      assert.equal(nameOf(await one.find(id, async () => memberCalled('New'))), 'New');
    });
  });
}

test('without the shared cache members are read from the CRM, and a drop is not done until it cannot matter', async () => {
  const fail = async () => Promise.reject(new CacheUnavailable('unavailable'));
  const cache = {
    ...createMemoryCache(),
    get: fail,
    setIfEqual: fail,
    delete: fail,
  } as unknown as SharedCache;
  const now = Date.now();
  const options = {
    cache,
    member,
    scope: 'x',
    seconds: 300,
    metrics: createMetrics(recordMetrics),
    clock: () => now,
  };
  const one = createMemberCache(options);
  for (const name of ['Old', 'New'])
    assert.equal((await one.find('id', async () => memberCalled(name)))?.values['last_name'], name);
  await assert.rejects(one.drop('id', now), CacheUnavailable);
  await assert.rejects(one.drop('id', now - 330_000), CacheUnavailable);
  await one.drop('id', now - 330_001);
});
