import type { SharedCache } from '../../platform/cache/shared-cache.ts';

/** Where the bucket is kept: one text, which all replicas change. */
export interface BudgetStore {
  /** The text, and milliseconds since some moment by the store's own clock. Throws while the store is unavailable. */
  read(): Promise<{ text: string | undefined; now: number }>;
  /** Replaces the text if it still is the expected one; returns whether it was. Throws while the store is unavailable. */
  replace(expected: string | undefined, text: string): Promise<boolean>;
}

/** Longer than anything that counts. */
const ttlMs = 48 * 3_600_000;

export function createCacheBudgetStore(cache: SharedCache, key: string): BudgetStore {
  return {
    async read() {
      const [text, now] = await Promise.all([cache.get(key), cache.time()]);
      return { text, now };
    },
    replace: (expected, text) => cache.setIfEqual(key, expected, text, ttlMs),
  };
}
