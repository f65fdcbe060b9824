import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it } from 'node:test';
import type { SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { eventually } from '../support/eventually.ts';
import { locksConformance } from './locks.ts';

export interface CacheUnderTest {
  cache: SharedCache;
  /** Lets this time pass for the cache: a moved clock, or a real wait. */
  elapse(ms: number): Promise<void>;
}

/** What every shared cache promises. Keys are random, so that it can run on a server that others use too. */
export function sharedCacheConformance(name: string, underTest: () => CacheUnderTest): void {
  describe(`${name} keeps the promises of the shared cache`, () => {
    describe('values', () => values(underTest));
    describe('counters', () => counters(underTest));
    describe('locks', () => {
      locksConformance(() => {
        const { cache, elapse } = underTest();
        return { locks: cache, elapse };
      });
    });
    describe('announcements', () => announcements(underTest));
  });
}

const newKey = () => `conformance:${randomUUID()}`;

function values(underTest: () => CacheUnderTest): void {
  it('has a clock that goes on', async () => {
    const { cache, elapse } = underTest();
    const before = await cache.time();
    await elapse(100);
    const after = await cache.time();
    assert.ok(after - before >= 99 && after - before < 60_000, `${after - before}`);
  });

  it('returns what was set, whatever it holds, and undefined for the rest', async () => {
    const { cache } = underTest();
    const key = newKey();
    assert.equal(await cache.get(key), undefined);
    for (const value of ['', '{"a":1}', 'ünï\u0000cødé 🧭', 'x'.repeat(100_000)]) {
      await cache.set(key, value, 60_000);
      assert.equal(await cache.get(key), value);
    }
  });

  it('forgets a value after its lifetime, and a new value has a new lifetime', async () => {
    const { cache, elapse } = underTest();
    const key = newKey();
    await cache.set(key, 'short', 100);
    await cache.set(key, 'long', 60_000);
    await elapse(150);
    assert.equal(await cache.get(key), 'long');
    await cache.set(key, 'short', 100);
    await elapse(150);
    assert.equal(await cache.get(key), undefined);
  });

  it('deletes what begins and ends as asked, however much there is, and nothing else', async () => {
    const { cache } = underTest();
    const [group, other] = [newKey(), newKey()];
    const keys = Array.from({ length: 30 }, (_, i) => `${group}:${i}:end`);
    const kept = [`${group}:1:end2`, `${other}:1:end`, `${group}:end:1`];
    for (const key of [...keys, ...kept]) await cache.set(key, 'value', 60_000);
    assert.equal(await cache.deleteMatching(`${group}:`, ':end'), 30);
    assert.equal(await cache.deleteMatching(`${group}:`, ':end'), 0);
    assert.equal(await cache.get(keys[7] as string), undefined);
    for (const key of kept) assert.equal(await cache.get(key), 'value');
  });

  it('takes lifetimes that are no whole milliseconds', async () => {
    const { cache } = underTest();
    const key = newKey();
    await cache.set(key, 'value', 59_999.5);
    assert.equal(await cache.get(key), 'value');
  });

  it('replaces only what the caller has seen, nothing included', async () => {
    const { cache, elapse } = underTest();
    const key = newKey();
    assert.equal(await cache.setIfEqual(key, 'seen', 'new', 60_000), false);
    assert.equal(await cache.get(key), undefined);
    assert.equal(await cache.setIfEqual(key, undefined, 'first', 60_000), true);
    assert.equal(await cache.setIfEqual(key, undefined, 'second', 60_000), false);
    assert.equal(await cache.setIfEqual(key, 'second', 'third', 60_000), false);
    assert.equal(await cache.get(key), 'first');
    assert.equal(await cache.setIfEqual(key, 'first', '', 2000), true);
    assert.equal(await cache.get(key), '');
    await elapse(2050);
    assert.equal(await cache.setIfEqual(key, '', 'late', 60_000), false);
    const won = await Promise.all(
      Array.from({ length: 20 }, (_, n) => cache.setIfEqual(key, undefined, `writer ${n}`, 60_000)),
    );
    assert.equal(won.filter(Boolean).length, 1);
    assert.equal(await cache.get(key), `writer ${won.indexOf(true)}`);
  });

  it('deletes whatever the key holds', async () => {
    const { cache } = underTest();
    const key = newKey();
    await cache.delete(key);
    await cache.set(key, 'value', 60_000);
    await cache.delete(key);
    assert.equal(await cache.get(key), undefined);
    assert.equal(await cache.setIfEqual(key, 'value', 'again', 60_000), false);
  });

  it('deletes only the value that the caller means', async () => {
    const { cache } = underTest();
    const key = newKey();
    assert.equal(await cache.deleteIfEqual(key, 'old'), false);
    await cache.set(key, 'new', 60_000);
    assert.equal(await cache.deleteIfEqual(key, 'old'), false);
    assert.equal(await cache.get(key), 'new');
    assert.equal(await cache.deleteIfEqual(key, 'new'), true);
    assert.equal(await cache.get(key), undefined);
  });
}

function counters(underTest: () => CacheUnderTest): void {
  const range = { first: 7, last: 9 };

  it('adds up each counter of a series, also in parallel, and returns those of the range', async () => {
    const { cache } = underTest();
    const key = newKey();
    const additions = new Map([
      [6, 1],
      [8, 2],
    ]);
    const found = await Promise.all(
      Array.from({ length: 20 }, () => cache.addToSeries(key, additions, range, 60_000)),
    );
    const sums = found.map((counters) => counters.get(8) ?? 0);
    assert.deepEqual(
      sums.toSorted((a, b) => a - b),
      Array.from({ length: 20 }, (_, index) => 2 * (index + 1)),
    );
    assert.deepEqual(
      await cache.addToSeries(key, new Map(), { first: 6, last: 8 }, 60_000),
      new Map([
        [6, 20],
        [7, 0],
        [8, 40],
      ]),
    );
  });

  it('forgets a series some time after the last addition, and the least of very many counters', async () => {
    const { cache, elapse } = underTest();
    const key = newKey();
    await cache.addToSeries(key, new Map([[7, 1]]), range, 3000);
    await elapse(200);
    assert.equal((await cache.addToSeries(key, new Map([[7, 1]]), range, 3000)).get(7), 2);
    await elapse(3100);
    assert.equal((await cache.addToSeries(key, new Map([[7, 1]]), range, 60_000)).get(7), 1);
    for (let n = 8; n < 400; n++)
      await cache.addToSeries(key, new Map([[n, 1]]), { first: n, last: n }, 60_000);
    const all = await cache.addToSeries(key, new Map(), { first: 7, last: 399 }, 60_000);
    const kept = [...all.values()].filter((count) => count > 0).length;
    assert.ok(kept >= 90 && kept <= 110, String(kept));
  });
}

function announcements(underTest: () => CacheUnderTest): void {
  it('reaches each subscriber of the channel once, in order, and nobody who has left', async () => {
    const { cache } = underTest();
    const [channel, other] = [newKey(), newKey()];
    const heard: string[][] = [[], [], []];
    const last = Promise.withResolvers<void>();
    const stops = [
      await subscribed(cache, channel, (message) => heard[0]?.push(message)),
      await subscribed(cache, channel, (message) =>
        message === 'last' ? last.resolve() : heard[1]?.push(message),
      ),
      await subscribed(cache, other, (message) => heard[2]?.push(message)),
    ];
    await cache.publish(channel, 'one');
    await cache.publish(channel, 'two');
    await cache.publish(channel, 'last');
    await last.promise;
    assert.deepEqual(heard, [['one', 'two', 'last'], ['one', 'two'], []]);
    for (const stop of stops) stop();
    await cache.publish(channel, 'three');
    const again = Promise.withResolvers<void>();
    const stop = await subscribed(cache, channel, () => again.resolve());
    await cache.publish(channel, 'four');
    await again.promise;
    stop();
    assert.deepEqual(heard, [['one', 'two', 'last'], ['one', 'two'], []]);
  });

  it('says whether anybody got the message', async () => {
    const { cache } = underTest();
    const channel = newKey();
    assert.equal(await cache.publish(channel, 'nobody'), 0);
    const stop = await subscribed(cache, channel, () => {});
    assert.equal(await cache.publish(channel, 'one'), 1);
    stop();
    // A server hears of it after a moment.
    await eventually(async () => assert.equal(await cache.publish(channel, 'none again'), 0));
  });
}

/** Subscribes and waits until announcements arrive: a server confirms a subscription after a moment. */
async function subscribed(
  cache: SharedCache,
  channel: string,
  onMessage: (message: string) => void,
): Promise<() => void> {
  const probe = `probe ${randomUUID()}`;
  let arrived = false;
  const stop = cache.subscribe(channel, (message) => {
    if (message === probe) arrived = true;
    else if (!message.startsWith('probe ')) onMessage(message);
  });
  await eventually(
    async () => {
      await cache.publish(channel, probe);
      assert.ok(arrived);
    },
    { everyMs: 5 },
  );
  return stop;
}
