import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { RateCounter } from '../../../src/identity/rate-limits/rate-counter.ts';
import { createMemoryCache } from '../../../src/platform/cache/memory.ts';
import { CacheUnavailable, type SharedCache } from '../../../src/platform/cache/shared-cache.ts';
import { createTestClock } from '../consumers/fixture.ts';

/** Replicas that count together, with one clock and one cache that can become unavailable. */
function replicas(limit: number) {
  const clock = createTestClock();
  const memory = createMemoryCache({ now: clock });
  let isUnavailable = false;
  const increments: string[] = [];
  const cache = {
    addToSeries: async (key, additions, range, ttlMs) => {
      if (isUnavailable) throw new CacheUnavailable('unavailable');
      increments.push(key);
      return memory.addToSeries(key, additions, range, ttlMs);
    },
  } as SharedCache;
  const counter = () => {
    const made = new RateCounter({ name: 'requests', cache, clock });
    return Object.assign(made, { take: (key: string) => RateCounter.prototype.take.call(made, key, limit) });
  };
  const setUnavailable = (value: boolean) => {
    isUnavailable = value;
  };
  return { a: counter(), b: counter(), counter, clock, increments, setUnavailable };
}

type Counter = ReturnType<ReturnType<typeof replicas>['counter']>;
const take = (counter: Counter, times: number, key = 'shop') =>
  Array.from({ length: times }, () => counter.take(key));
const allowed = (quotas: { allowed: boolean }[]) => quotas.filter((quota) => quota.allowed).length;

describe('counting by key in the last 60 seconds', () => {
  it('lets through as many as the limit says, and returns what is left', () => {
    const { a, clock } = replicas(3);
    const quotas = take(a, 5);
    assert.deepEqual(
      quotas.map(({ remaining }) => remaining),
      [2, 1, 0, 0, 0],
    );
    assert.equal(allowed(quotas), 3);
    assert.equal(allowed(take(a, 5, 'another')), 3);
    assert.equal(quotas[4]?.resetSeconds, 60);
    clock.advance(59_000);
    assert.equal(allowed(take(a, 1)), 0);
    clock.advance(2000);
    assert.equal(allowed(take(a, 5)), 3);
  });

  it('gives the whole limit to a consumer that sends evenly', () => {
    const { a, clock } = replicas(120);
    for (let i = 0; i < 1000; i++) {
      assert.ok(a.take('shop').allowed, String(i));
      clock.advance(500);
    }
  });

  it('has no 60 seconds with more than the limit and a tenth, however the requests bunch', () => {
    const bunch = fc.record({ pauseMs: fc.nat(30_000), requests: fc.integer({ min: 1, max: 300 }) });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.array(bunch, { maxLength: 60 }), (limit, bunches) => {
        const { a, clock } = replicas(limit);
        const times: number[] = [];
        for (const { pauseMs, requests } of bunches) {
          clock.advance(pauseMs);
          for (let i = 0; i < requests; i++) if (a.take('shop').allowed) times.push(clock());
        }
        for (const [i, time] of times.entries()) {
          const within = times.filter((other) => other > time - 60_000 && other <= time).length;
          if (times[i + 1] !== time) assert.ok(within <= limit * 1.1, `${within} of ${limit}`);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('holds over replicas too, but for what they let through between two reconciliations', async () => {
    const step = fc.record({ replica: fc.nat(1), requests: fc.integer({ min: 0, max: 40 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 10, max: 100 }),
        fc.array(step, { maxLength: 150 }),
        async (limit, steps) => {
          const { a, b, clock } = replicas(limit);
          const times: number[] = [];
          let most = 0;
          for (const { replica, requests } of steps) {
            const quotas = take(replica === 0 ? a : b, requests);
            most = Math.max(most, allowed(quotas));
            for (let i = 0; i < allowed(quotas); i++) times.push(clock());
            await a.reconcile();
            await b.reconcile();
            clock.advance(1000);
          }
          for (const time of times) {
            const within = times.filter((other) => other > time - 60_000 && other <= time).length;
            assert.ok(within <= limit * 1.1 + 2 * most, `${within} of ${limit}`);
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  it('counts together with the other replicas', async () => {
    const { a, b, increments } = replicas(10);
    take(a, 4);
    take(b, 4);
    await a.reconcile();
    await b.reconcile();
    // b knows of both; a learns of the others when it next has something to share.
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

  it('goes on by itself without the shared cache, and shares everything once that is back', async () => {
    const { a, b, setUnavailable } = replicas(10);
    setUnavailable(true);
    take(a, 3);
    await assert.rejects(a.reconcile(), CacheUnavailable);
    assert.equal(a.take('shop').remaining, 6);
    await assert.rejects(a.reconcile(), CacheUnavailable);
    setUnavailable(false);
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
