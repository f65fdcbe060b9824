import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createRedisCache } from '../../../src/platform/cache/redis.ts';
import { CacheUnavailable, type SharedCache } from '../../../src/platform/cache/shared-cache.ts';
import { sharedCacheConformance } from '../../conformance/shared-cache.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';
import { freePort } from '../../support/ports.ts';
import { findRedis, type RedisServer, startRedis } from '../../support/redis.ts';

const shared = await findRedis();

describe('with a shared Redis', { skip: shared === undefined && 'no Redis' }, () => {
  let cache: SharedCache;
  before(async () => {
    cache = createRedisCache({ url: shared as string, log: recordLog().log });
    await answers(cache);
  });
  after(() => cache.close());

  it('takes a key of another kind for none, and puts a value in its place', async () => {
    const redis = new Redis(shared as string);
    const key = `test:${randomUUID()}`;
    await redis.rpush(key, 'a list');
    await redis.quit();
    assert.equal(await cache.get(key), undefined);
    await cache.set(key, 'value', 1000);
    assert.equal(await cache.get(key), 'value');
  });

  it('takes a lock whose key no holder can have put there: without an end, with a later one, or of another kind', async () => {
    const redis = new Redis(shared as string);
    const [endless, late, list] = [1, 2, 3].map(() => `test:${randomUUID()}`) as [string, string, string];
    await redis.set(endless, 'x');
    await redis.set(late, 'x', 'PX', 70_000);
    await redis.rpush(list, 'x');
    await redis.quit();
    for (const key of [endless, late, list]) {
      const lock = await cache.acquireLock(key, 60_000);
      assert.equal(await lock?.isHeld(), true, key);
      assert.equal(await cache.acquireLock(key, 60_000), undefined);
      await lock?.release();
      assert.equal(await cache.get(key), undefined);
    }
  });

  sharedCacheConformance('Redis', () => ({ cache, elapse: (ms) => delay(ms) }));
});

const own = await startRedis({ password: 'not-for-the-log' });

describe('a Redis that comes and goes', { skip: own === undefined && 'no redis-server' }, () => {
  let server = own as RedisServer;
  const port = Number(new URL(own?.url ?? 'redis://x:1').port);
  after(() => server.stop());

  it('fails with CacheUnavailable while Redis is down, works again by itself, and says that announcements were missed', async (t) => {
    const { log, lines } = recordLog();
    const cache = createRedisCache({ url: server.url, log });
    t.after(async () => {
      await cache.close();
    });
    await answers(cache);
    const heard: string[] = [];
    let confirmed = Promise.withResolvers<void>();
    cache.subscribe(
      'news',
      (message) => {
        heard.push(message);
        if (message === 'after') confirmed.resolve();
      },
      () => confirmed.resolve(),
    );
    await confirmed.promise;
    await server.stop();
    await assert.rejects(cache.get('key'), CacheUnavailable);
    await assert.rejects(cache.set('key', 'value', 1000), CacheUnavailable);
    await assert.rejects(cache.acquireLock('lock', 1000), CacheUnavailable);
    await assert.rejects(cache.publish('news', 'lost'), CacheUnavailable);
    await assert.rejects(cache.checkHealth(), CacheUnavailable);
    confirmed = Promise.withResolvers<void>();
    server = (await startRedis({ port, password: 'not-for-the-log' })) as RedisServer;
    await confirmed.promise;
    await answers(cache);
    confirmed = Promise.withResolvers<void>();
    await cache.publish('news', 'after');
    await confirmed.promise;
    assert.deepEqual(heard, ['after']);
    assert.doesNotMatch(JSON.stringify(lines), /not-for-the-log/);
    assert.ok(lines.length >= 2);
  });

  it('can be made while Redis is down', async (t) => {
    await server.stop();
    const cache = createRedisCache({ url: server.url, log: recordLog().log });
    t.after(async () => {
      await cache.close();
    });
    await assert.rejects(cache.get('key'), CacheUnavailable);
    const stop = cache.subscribe('news', () => undefined);
    server = (await startRedis({ port, password: 'not-for-the-log' })) as RedisServer;
    await answers(cache);
    stop();
  });

  it('fails at once when Redis takes commands but never answers', async (t) => {
    const cache = createRedisCache({ url: server.url, log: recordLog().log });
    t.after(async () => {
      process.kill(server.pid, 'SIGCONT');
      await cache.close();
    });
    await answers(cache);
    process.kill(server.pid, 'SIGSTOP');
    await assert.rejects(cache.get('key'), CacheUnavailable);
    // The connection was given up with that answer's time: nobody else waits a second for nothing.
    await delay(50);
    const waits = Array.from({ length: 5 }, () => assert.rejects(cache.get('key'), /writeable|closed/));
    await Promise.all(waits);
  });

  it('never shows the password, neither in errors nor in the log', async (t) => {
    const { log, lines } = recordLog();
    const cache = createRedisCache({ url: server.url.replace('not-for-the-log', 'wrong-password'), log });
    t.after(async () => {
      await cache.close();
    });
    await eventually(() => assert.notEqual(lines.length, 0), { everyMs: 10 });
    const error = await cache.get('key').then(
      () => undefined,
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof CacheUnavailable);
    assert.doesNotMatch(JSON.stringify([lines, error.message, Object.entries(error)]), /wrong-password/);
  });
});

it('connects again when the server has become a replica: its name may lead to another by now', {
  skip: !own && 'no redis-server',
}, async (t) => {
  const server = (await startRedis()) as RedisServer;
  const { log, lines } = recordLog();
  const cache = createRedisCache({ url: server.url, log });
  const operator = new Redis(server.url);
  t.after(async () => {
    operator.disconnect();
    await cache.close();
    await server.stop();
  });
  await answers(cache);
  await operator.replicaof('127.0.0.1', 1);
  await assert.rejects(cache.acquireLock('lock', 1000), CacheUnavailable);
  await eventually(() => assert.ok(lines.some(({ message }) => message === 'Redis is connected again')), {
    everyMs: 10,
  });
  await operator.replicaof('NO', 'ONE');
  assert.ok(await cache.acquireLock('lock', 1000));
});

it('health shows a Redis that is full: it answers, and takes no writes', {
  skip: !own && 'no redis-server',
}, async (t) => {
  const server = (await startRedis()) as RedisServer;
  const cache = createRedisCache({ url: server.url, log: recordLog().log });
  const operator = new Redis(server.url);
  t.after(async () => {
    operator.disconnect();
    await cache.close();
    await server.stop();
  });
  await answers(cache);
  await operator.config('SET', 'maxmemory', '1');
  assert.equal(await cache.get('key'), undefined);
  await assert.rejects(cache.checkHealth(), { name: 'CacheUnavailable', message: /^Redis: OOM / });
  await operator.config('SET', 'maxmemory', '0');
  await cache.checkHealth();
});

it('a user that may not subscribe is named once, asked for again with pauses, and health shows it', {
  skip: !own && 'no redis-server',
}, async (t) => {
  const documented = await readFile(new URL('../../../docs/dependencies.md', import.meta.url), 'utf8');
  const [, rights = ''] = /`ACL SETUSER gateway on >… ([^`]+)`/.exec(documented) ?? [];
  const server = (await startRedis()) as RedisServer;
  const operator = new Redis(server.url);
  const permit = (...rules: string[]) => operator.call('ACL', 'SETUSER', 'gateway', ...rules);
  await permit('on', '>word', ...rights.split(' '), 'resetchannels');
  const { log, lines } = recordLog();
  const cache = createRedisCache({ url: server.url.replace('//', '//gateway:word@'), log });
  t.after(async () => {
    operator.disconnect();
    await cache.close();
    await server.stop();
  });
  const heard: string[] = [];
  const joined = new Map(['news', 'more'].map((channel) => [channel, Promise.withResolvers<void>()]));
  const arrived = Promise.withResolvers<void>();
  for (const [channel, { resolve }] of joined)
    cache.subscribe(channel, (message) => arrived.resolve(void heard.push(message)), resolve);
  await eventually(() => assert.rejects(cache.checkHealth(), /^CacheUnavailable: Redis: NOPERM/), {
    everyMs: 10,
  });
  await eventually(async () =>
    assert.ok(/subscribe:calls=\d+,.*rejected_calls=[4-9]/.test(await operator.info('commandstats'))),
  );
  assert.match(await operator.info('stats'), /^total_connections_received:[34]\r$/m);
  const told = lines.filter(({ level }) => level !== 'info');
  assert.deepEqual(
    told.map(({ level, facts }) => [level, facts['advice']]),
    [['error', 'let the Redis user subscribe: +@pubsub and &*']],
  );
  assert.match(String(told[0]?.facts['reason']), /^NOPERM/);
  await permit(...rights.split(' '));
  await Promise.all([...joined.values()].map(({ promise }) => promise));
  await cache.checkHealth();
  await cache.publish('news', 'hello');
  await arrived.promise;
  assert.deepEqual(heard, ['hello']);
  assert.equal(lines.filter(({ message }) => message.endsWith('subscribe again')).length, 1);
});

it('a node of a Cluster is refused in words, though it answers', {
  skip: !own && 'no redis-server',
}, async () => {
  // Else its bus takes a port that is larger by 10,000, which may not be free.
  const bus = ['--cluster-port', String(await freePort())];
  const node = (await startRedis({ more: ['--cluster-enabled', 'yes', ...bus] })) as RedisServer;
  const { log, lines } = recordLog();
  const cache = createRedisCache({ url: node.url, log });
  try {
    await eventually(
      () => assert.ok(lines.some(({ message }) => message.startsWith("can't use this Redis"))),
      { everyMs: 10 },
    );
    for (const use of [cache.checkHealth(), cache.get('key'), cache.acquireLock('lock', 1000)]) {
      await assert.rejects(use, {
        name: 'CacheUnavailable',
        message: /in cluster mode: name a single server/,
      });
    }
  } finally {
    await cache.close();
    await node.stop();
  }
});

/** Waits for the first connection: until then every command fails at once. */
async function answers(cache: SharedCache): Promise<void> {
  await eventually(() => cache.checkHealth(), { everyMs: 10 });
}
