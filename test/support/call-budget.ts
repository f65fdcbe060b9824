import { type BudgetLimits, limitsOf, type SyncRequest } from '../../src/crm/budget/bucket.ts';
import { createCacheBudgetStore, SharedBucket } from '../../src/crm/budget/shared-bucket.ts';
import type { SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { openSharedCache } from './shared-cache.ts';

/** The budget of the environment `dev` in a cache, as if this were one more replica. */
export function joinBudget(cache: SharedCache, limits: BudgetLimits) {
  const bucket = new SharedBucket(createCacheBudgetStore(cache, 'dev'), limits);
  const sync = (changes: Partial<SyncRequest>) =>
    bucket.sync({
      ...{ replica: 'test', returned: 0, unleased: 0, leaves: true },
      ...{ writes: 0, reads: 0, polls: 0, ahead: 0, most: 0 },
      ...changes,
    });
  return {
    limits,
    /** Leaves so many calls of the burst. */
    async drain(left = 0): Promise<void> {
      await sync({});
      await sync({ unleased: Math.floor(bucket.available) - left });
    },
    /** Calls that count, as the bucket has them. */
    async used(): Promise<number> {
      await sync({});
      return bucket.used;
    },
  };
}

/** The same, in a Redis. */
export async function openBudget(redisUrl: string, secretsDir: string, dailyCalls: number) {
  const cache = await openSharedCache(redisUrl, secretsDir);
  return { ...joinBudget(cache, limitsOf(dailyCalls, 2000)), close: () => cache.close() };
}
