import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, it } from 'node:test';
import { type Consumers, createConsumers } from '../../../src/identity/consumers/consumers.ts';
import { makeConsumerId } from '../../../src/identity/consumers/credentials.ts';
import { readRevocations } from '../../../src/identity/consumers/loss-guard.ts';
import { commandLine } from '../../../src/identity/consumers/record-changes.ts';
import { consumerSecretName } from '../../../src/identity/consumers/stored-consumer.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { createMemoryCache } from '../../../src/platform/cache/memory.ts';
import { createRedisCache } from '../../../src/platform/cache/redis.ts';
import type { SharedCache } from '../../../src/platform/cache/shared-cache.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { SecretsUnavailable } from '../../../src/platform/secrets/secrets-manager.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';
import { startRedis } from '../../support/redis.ts';
import { createTestSecrets, readQuotes } from './fixture.ts';

const redis = await startRedis();
after(() => redis?.stop());
const hasCode = (code: string) => (error: unknown) => error instanceof Problem && error.code === code;

describe('administration of consumers', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  const opened: { stop(): Promise<void> }[] = [];
  beforeEach(async () => {
    store = await createTestSecrets();
  });
  afterEach(async () => {
    for (const { stop } of opened.splice(0).reverse()) await stop();
    await store.remove();
  });

  /** A replica that hears of changes through the cache only, as over a network. */
  const startReplica = async (cache: SharedCache, clock = Date.now): Promise<Consumers> => {
    const consumers = createConsumers({
      clock,
      secrets: { ...store.secrets, watch: () => () => undefined },
      log: recordLog().log,
      metrics: createMetrics(),
      refreshSeconds: 3600,
      cache,
    });
    opened.push(consumers);
    await consumers.start();
    await consumers.directory.refresh();
    return consumers;
  };
  const resultOf = async (consumers: Consumers, pair: { apiKey: string; apiSecret: string }) =>
    (await consumers.authenticate(pair)).result;
  const until = async (consumers: Consumers, pair: { apiKey: string; apiSecret: string }, result: string) => {
    await eventually(async () => assert.equal(await resultOf(consumers, pair), result), {
      pause: () => new Promise(setImmediate),
    });
  };

  const spoil = async (id: string) => {
    const name = consumerSecretName(id);
    await store.secrets.write(name, '{', (await store.secrets.read(name))?.version ?? null);
  };

  it('keeps a pair over that a rotation ended, also at a replica whose clock is behind and that changes the consumer', async () => {
    const cache = createMemoryCache();
    const [first, late] = [await startReplica(cache), await startReplica(cache, () => Date.now() - 100_000)];
    const shop = await first.administration.create({ name: 'shop', permissions: readQuotes });
    const next = await first.administration.rotate(shop.consumer.id, 0);
    await until(late, next, 'accepted');
    await late.administration.change(shop.consumer.id, { name: 'the shop' });
    assert.equal(await resultOf(late, shop), 'expired');
    await late.administration.rotate(shop.consumer.id, 0);
    assert.deepEqual([await resultOf(late, next), await resultOf(late, shop)], ['expired', 'expired']);
  });

  it('loses no pair when two replicas rotate at once, many times', async () => {
    const cache = createMemoryCache();
    const [first, second] = [await startReplica(cache), await startReplica(cache)];
    const shop = await first.administration.create({ name: 'shop', permissions: readQuotes });
    const { id } = shop.consumer;
    const rotations = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? first : second).administration.rotate(id)),
    );
    const { credentials } = await first.administration.find(id);
    const keys = [shop.apiKey, ...rotations.map(({ apiKey }) => apiKey)];
    assert.deepEqual(credentials.map(({ apiKey }) => apiKey).sort(), keys.sort());
    assert.equal(credentials.filter(({ state }) => state === 'active').length, 1);
    for (const replica of [first, second]) {
      for (const pair of [shop, ...rotations]) await until(replica, pair, 'accepted');
    }
    // Each was the active one before exactly one rotation; the last one still is.
    const before = rotations.map(({ previous }) => previous?.apiKey);
    assert.equal(new Set(before).size, rotations.length);
  });

  it('makes changes and rotations at once, and keeps both', async () => {
    const replica = await startReplica(createMemoryCache());
    const { consumer } = await replica.administration.create({ name: 'shop', permissions: readQuotes });
    const { id } = consumer;
    const { administration } = replica;
    await Promise.all([
      administration.change(id, { name: 'new name' }),
      administration.rotate(id),
      administration.change(id, { certificateFingerprints: ['AB'.repeat(32)] }),
      administration.rotate(id),
    ]);
    const found = await administration.find(id);
    assert.equal(found.name, 'new name');
    assert.deepEqual(found.certificateFingerprints, ['ab'.repeat(32)]);
    assert.equal(found.credentials.length, 3);
  });

  it('revokes many consumers at once, through two replicas', async () => {
    const replicas = [
      await startReplica(createMemoryCache()),
      await startReplica(createMemoryCache()),
    ] as const;
    const create = () => replicas[0].administration.create({ name: 'shop', permissions: readQuotes });
    const made = await Promise.all(Array.from({ length: 160 }, create));
    const ids = made.map(({ consumer }) => consumer.id);
    await Promise.all(ids.map((id, index) => replicas[index % 2 === 0 ? 0 : 1].administration.revoke(id)));
    assert.deepEqual((await readRevocations(store.secrets)).slice(-ids.length).sort(), ids.sort());
    assert.deepEqual(await replicas[1].store.list(), []);
  });

  it('says that the secrets manager is unavailable, and shows meanwhile what is loaded', async () => {
    const { administration } = await startReplica(createMemoryCache());
    const { consumer } = await administration.create({ name: 'shop', permissions: readQuotes });
    store.failWith(new SecretsUnavailable('no route to the vault'));
    const unavailable = hasCode('secrets_unavailable');
    await assert.rejects(administration.rotate(consumer.id), unavailable);
    await assert.rejects(administration.change(consumer.id, { name: 'b' }), unavailable);
    await assert.rejects(administration.revoke(consumer.id), unavailable);
    await assert.rejects(administration.find(makeConsumerId()), unavailable);
    assert.equal((await administration.find(consumer.id)).name, 'shop');
    store.failWith(undefined);
    assert.equal((await administration.find(consumer.id)).credentials.length, 1);
  });

  it('says how to go on where the answer to a creation is lost: nobody has the secret, and its maker no id', async () => {
    const { write } = store.secrets;
    store.secrets.write = async (name, ...others) => {
      const version = await write(name, ...others);
      if (name.startsWith('consumers/')) throw new SecretsUnavailable('no answer in time');
      return version;
    };
    const { administration } = await startReplica(createMemoryCache());
    const creating = administration.create({ name: 'shop', permissions: readQuotes });
    await assert.rejects(creating, /look for its name in the list, and revoke it/);
  });

  it('finds no consumer for an id that is unknown or none, and reads nothing for the latter', async () => {
    const { administration } = await startReplica(createMemoryCache());
    for (const id of [makeConsumerId(), '../../keys/pepper', '', 'x'.repeat(200)]) {
      store.reads.length = 0;
      for (const work of [
        () => administration.rotate(id),
        () => administration.change(id, { name: 'b' }),
        () => administration.revoke(id),
        () => administration.find(id),
      ]) {
        await assert.rejects(work, hasCode('not_found'));
      }
      assert.equal(store.reads.length, id.startsWith('con_') ? 4 : 0);
    }
  });

  it('says that a record is broken, and can still revoke it', async () => {
    const { administration } = await startReplica(createMemoryCache());
    const id = makeConsumerId();
    await mkdir(join(store.dir, 'consumers'), { recursive: true });
    await writeFile(join(store.dir, 'consumers', id), '{}');
    await assert.rejects(administration.find(id), hasCode('conflict'));
    await assert.rejects(administration.rotate(id), hasCode('conflict'));
    await administration.revoke(id);
    await assert.rejects(administration.find(id), hasCode('not_found'));
  });

  it('goes on when a change cannot be announced', async () => {
    const cache = createMemoryCache();
    const broken: SharedCache = {
      ...cache,
      subscribe: () => () => undefined,
      publish: () => Promise.reject(new Error('Redis is unavailable')),
    };
    const replica = await startReplica(broken);
    const shop = await replica.administration.create({ name: 'shop', permissions: readQuotes });
    assert.equal(await resultOf(replica, shop), 'accepted');
    await replica.administration.revoke(shop.consumer.id);
    assert.equal(await resultOf(replica, shop), 'revoked');
  });

  it('is followed by other replicas over Redis at once, and after a lost connection', {
    skip: !redis && 'no redis-server',
  }, async () => {
    if (redis === undefined) return;
    const { url } = redis;
    const open = () => {
      const cache = createRedisCache({ url, log: recordLog().log });
      opened.push({ stop: () => cache.close() });
      return cache;
    };
    const [here, there] = [await startReplica(open()), await startReplica(open())];
    const shop = await here.administration.create({ name: 'shop', permissions: readQuotes });
    const { id } = shop.consumer;
    // The first announcements may come before the subscription: from here on it stands.
    await until(there, shop, 'accepted');
    await here.administration.change(id, { name: 'renamed' });
    await eventually(() => assert.equal(there.directory.consumer(id)?.name, 'renamed'), {
      pause: () => new Promise(setImmediate),
    });
    const next = await here.administration.rotate(id, 0);
    await until(there, shop, 'expired');
    await until(there, next, 'accepted');
    await here.administration.revoke(id);
    await until(there, next, 'revoked');

    const other = await here.administration.create({ name: 'other', permissions: readQuotes });
    await until(there, other, 'accepted');
    const port = Number(new URL(url).port);
    await redis.stop();
    await here.administration.revoke(other.consumer.id);
    assert.equal(await resultOf(there, other), 'accepted');
    const again = await startRedis({ port });
    assert.ok(again);
    opened.push({ stop: () => again.stop() });
    await until(there, other, 'revoked');
  });

  it('assigns no more than all of the CRM calls, also where several are raised at the same time', async () => {
    const cache = createMemoryCache();
    opened.push({ stop: () => cache.close() });
    const replicas = await Promise.all([1, 2, 3].map(() => startReplica(cache)));
    const here = replicas[0] as Consumers;
    const create = async (crmShare?: number) =>
      (
        await here.administration.create({
          name: 'shop',
          permissions: readQuotes,
          ...(crmShare && { crmShare }),
        })
      ).consumer;
    const shops = [];
    for (let n = 0; n < 9; n++) shops.push(await create());
    const raised = await Promise.allSettled(
      shops.map(({ id }, n) => (replicas[n % 3] as Consumers).administration.change(id, { crmShare: 30 })),
    );
    const failures = raised.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    assert.equal(failures.length, 6);
    assert.ok(failures.every(hasCode('conflict')));
    await assert.rejects(create(11), hasCode('conflict'));
    assert.equal((await create(10)).crmShare, 10);
    const shares = (await here.store.list()).map(({ crmShare }) => crmShare ?? 0);
    assert.equal(
      shares.reduce((sum, share) => sum + share, 0),
      100,
    );
    const [id = ''] = (await here.store.list()).flatMap((one) => (one.crmShare === 30 ? [one.id] : []));
    await here.administration.change(id, { crmShare: null });
    assert.equal((await create(30)).crmShare, 30);
  });

  it('makes no more than 50 of a test administrator, on however many replicas at the same time', async () => {
    const cache = createMemoryCache();
    opened.push({ stop: () => cache.close() });
    const replicas = await Promise.all([1, 2, 3].map(() => startReplica(cache)));
    const here = replicas[0] as Consumers;
    // It hears of no consumer.
    const apart = await startReplica(createMemoryCache());
    const permissions = [{ resource: 'consumers', actions: ['read', 'write', 'delete'] }];
    const { consumer: boss } = await here.administration.create({ name: 'boss', permissions, mode: 'test' });
    const authority = { callerId: boss.id, author: commandLine() };
    const create = (n: number) =>
      (replicas[n % 3] as Consumers).administration.create({ name: 'made', permissions }, authority);
    const tried = await Promise.allSettled(Array.from({ length: 58 }, (_, n) => create(n)));
    const failures = tried.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    assert.equal(failures.length, 8);
    assert.ok(failures.every(hasCode('conflict')));
    const ofFamily = (await here.store.list()).filter(({ ancestors }) => ancestors?.includes(boss.id));
    assert.equal(ofFamily.length, 50);
    // One that was never made, an hour ago, and one that went past the gateway leave their places.
    const name = `test-families/${boss.id}`;
    const idOf = (line = '') => line.split(' ')[0] ?? '';
    const family = await store.secrets.read(name);
    const [first = '', ...rest] = family?.value.trim().split('\n') ?? [];
    const lines = [first, ...rest.map((line) => line.replace(/ .*/, ' 2026-01-01T00:00:00Z'))];
    await store.secrets.write(name, lines.join('\n'), family?.version ?? null);
    await here.store.revoke(idOf(rest[0]), commandLine());
    for (const replica of replicas) await replica.directory.refresh();
    await create(1);
    await assert.rejects(create(2), hasCode('conflict'));
    // A broken record may be repaired.
    await spoil(idOf(rest[1]));
    const another = apart.administration.create({ name: 'made', permissions }, authority);
    await assert.rejects(another, hasCode('conflict'));
  });

  it('notes when it enables one that was disabled, which ends sessions of people, and at no other change', async () => {
    const { administration } = await startReplica(createMemoryCache());
    const { consumer } = await administration.create({ name: 'shop', permissions: readQuotes });
    for (const [change, isBack] of [
      [{ enabled: true }, false],
      [{ enabled: false }, false],
      [{ name: 'other' }, false],
      [{ enabled: true }, true],
    ] as const) {
      const { enabledAt } = await administration.change(consumer.id, change);
      assert.equal(enabledAt !== undefined, isBack, JSON.stringify(change));
    }
  });
});
