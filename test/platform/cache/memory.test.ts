import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createMemoryCache } from '../../../src/platform/cache/memory.ts';
import { sharedCacheConformance } from '../../conformance/shared-cache.ts';

sharedCacheConformance('the cache in memory', () => {
  let now = 1_000;
  return {
    cache: createMemoryCache({ now: () => now }),
    elapse: async (ms) => {
      now += ms;
    },
  };
});

it('the cache in memory forgets the oldest values before it grows without bound, but no lock', async () => {
  const cache = createMemoryCache();
  const lock = await cache.acquireLock('lock', 60_000);
  for (let index = 0; index < 25_000; index++) await cache.set(`key ${index}`, 'value', 60_000);
  assert.equal(await cache.get('key 0'), undefined);
  assert.equal(await cache.get('key 24999'), 'value');
  assert.equal(await lock?.isHeld(), true);
});
