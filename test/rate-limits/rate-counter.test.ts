import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMemoryCache } from '../../src/cache/memory.ts';
import { CacheUnavailable, type SharedCache } from '../../src/cache/shared-cache.ts';
import { RateCounter } from '../../src/rate-limits/rate-counter.ts';
import { createTestClock } from '../consumers/fixture.ts';

/** Replicas that count together, with one clock and one cache that can be taken away. */
function replicas(limit: number) {
  const clock = createTestClock();
  const memory = createMemoryCache({ now: clock });
  let away = false;
  const increments: string[] = [];
  const cache = {
    increment: async (key: string, by: number, ttlMs: number) => {
      if (away) throw new CacheUnavailable('away');
      increments.push(`${key} ${by}`);
      return memory.increment(key, by, ttlMs);
    },
  } as SharedCache;
  const counter = () => new RateCounter({ name: 'requests', limit, cache, clock });
  const setAway = (value: boolean) => {
    away = value;
  };
  return { a: counter(), b: counter(), clock, increments, setAway };
}

const take = (counter: RateCounter, times: number, key = 'shop') =>
  Array.from({ length: times }, () => counter.take(key));
const allowed = (quotas: { allowed: boolean }[]) => quotas.filter((quota) => quota.allowed).length;

describe('counting by key in windows of a minute', () => {
  it('lets through as many as the limit says, and tells what is left', () => {
    const { a, clock } = replicas(3);
    const quotas = take(a, 5);
    assert.deepEqual(
      quotas.map(({ remaining }) => remaining),
      [2, 1, 0, 0, 0],
    );
    assert.equal(allowed(quotas), 3);
    assert.equal(allowed(take(a, 5, 'another')), 3);
    const reset = quotas[4]?.resetSeconds ?? 0;
    assert.ok(reset >= 1 && reset <= 60);
    clock.advance((reset - 1) * 1000);
    assert.equal(allowed(take(a, 1)), 0);
    clock.advance(1000);
    assert.equal(allowed(take(a, 5)), 3);
  });

  it('counts together with the other replicas', async () => {
    const { a, b, increments } = replicas(10);
    take(a, 4);
    take(b, 4);
    await a.reconcile();
    await b.reconcile();
    // b knows of both; a learns of the others when it next has something to tell.
    assert.equal(b.take('shop').remaining, 1);
    assert.equal(a.take('shop').remaining, 5);
    await a.reconcile();
    await b.reconcile();
    assert.equal(allowed(take(a, 10)) <= 1, true);
    assert.equal(allowed(take(b, 10)), 0);
    assert.equal(increments.length, 4);
    await b.reconcile();
    assert.equal(increments.length, 4);
  });

  it('goes on by itself without the shared cache, and tells everything once that is back', async () => {
    const { a, b, setAway } = replicas(10);
    setAway(true);
    take(a, 3);
    await assert.rejects(a.reconcile(), CacheUnavailable);
    assert.equal(a.take('shop').remaining, 6);
    await assert.rejects(a.reconcile(), CacheUnavailable);
    setAway(false);
    await a.reconcile();
    take(b, 1);
    await b.reconcile();
    assert.equal(b.take('shop').remaining, 4);
  });

  it('counts nothing twice when it is reconciled while it is being reconciled', async () => {
    const { a, b } = replicas(100);
    take(a, 5);
    const first = a.reconcile();
    take(a, 5);
    await Promise.all([first, a.reconcile()]);
    await a.reconcile();
    take(b, 1);
    await b.reconcile();
    assert.equal(b.take('shop').remaining, 100 - 12);
  });

  it('forgets what has ended, and never grows without bound', async () => {
    const { a, clock, increments } = replicas(1);
    for (let i = 0; i < 150_000; i++) a.take(`key-${i}`);
    assert.ok(a.size >= 90_000 && a.size <= 100_000, String(a.size));
    clock.advance(120_000);
    a.sweep();
    assert.equal(a.size, 0);
    await a.reconcile();
    assert.deepEqual(increments, []);
  });
});
