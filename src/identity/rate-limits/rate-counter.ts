import { inParallel } from '../../platform/base/concurrency.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import { SlidingCount, secondOf, windowSeconds } from './sliding-count.ts';

/** Keys that are counted at once; beyond that the oldest tenth of them is dropped. */
const maxKeys = 100_000;
const parallelAdditions = 100;
/** Other replicas add their counts this much later at most, and their clocks differ by less. */
const lateSeconds = 5;

/** Count in the 60 seconds that end now. */
export interface RateLimitResult {
  allowed: boolean;
  remaining: number;
  /** Whole seconds until some of what was counted has left the window, from 1 to 60. */
  resetSeconds: number;
}

interface RateCounterOptions {
  name: string;
  cache: SharedCache;
  /** Milliseconds since 1970. */
  clock: () => number;
}

/**
 * Counts by key in a window of 60 seconds that slides. Each replica counts by itself and `reconcile` adds its counts to
 * those of the others; so a limit may be passed by what the replicas let through between two calls. Without the shared
 * cache each replica goes on by itself.
 */
export class RateCounter {
  readonly #options: RateCounterOptions;
  readonly #counts = new Map<string, SlidingCount>();
  #waiting: [string, SlidingCount][] = [];

  constructor(options: RateCounterOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#counts.size;
  }

  /** Counts one; those beyond the limit are refused and not counted. */
  take(key: string, limit: number): RateLimitResult {
    const now = this.#options.clock();
    const count = this.#current(key, now);
    const remaining = Math.floor(limit - count.usedOf(limit, now) - 1);
    const allowed = remaining >= 0;
    if (allowed) {
      count.addOwn(now);
      if (!count.isWaiting) this.#waiting.push([key, count]);
      count.isWaiting = true;
    }
    return {
      allowed,
      remaining: Math.max(0, remaining),
      resetSeconds: count.secondsUntilFree(limit, now),
    };
  }

  isReached(key: string, limit: number): boolean {
    const now = this.#options.clock();
    return this.#current(key, now).usedOf(limit, now) + 1 > limit;
  }

  /** Adds the counts of this replica to the shared cache and reads those of the others. Throws `CacheUnavailable`. */
  async reconcile(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    try {
      // Ends when all additions have, so that nothing is added twice.
      await inParallel(waiting, parallelAdditions, ([key, count]) => this.#add(key, count));
    } finally {
      // Counts that were not added stay here, and are added later if they have not left the window by then.
      const now = this.#options.clock();
      for (const [key, count] of waiting) {
        count.moveTo(now);
        count.isWaiting = count.ownCounts().size > 0;
        if (count.isWaiting) this.#waiting.push([key, count]);
      }
    }
  }

  sweep(): void {
    const now = this.#options.clock();
    for (const [key, count] of this.#counts) {
      count.moveTo(now);
      if (count.isEmpty) this.#counts.delete(key);
    }
  }

  #current(key: string, now: number): SlidingCount {
    const known = this.#counts.get(key);
    if (known !== undefined) {
      known.moveTo(now);
      return known;
    }
    const count = new SlidingCount();
    if (this.#counts.size >= maxKeys) {
      this.sweep();
      forgetOldest(this.#counts, 0.9 * maxKeys);
    }
    this.#counts.set(key, count);
    return count;
  }

  async #add(key: string, count: SlidingCount): Promise<void> {
    const { name, cache, clock } = this.#options;
    const second = secondOf(clock());
    count.moveTo(clock());
    const added = count.ownCounts();
    if (added.size === 0) return;
    // Older counts do not change any more. A replica that has not counted this key lately reads all of it.
    const first = Math.max(second - windowSeconds, count.knownUntil - lateSeconds);
    const range = { first, last: second + lateSeconds };
    const sums = await cache.addToSeries(`rate:${name}:${key}`, added, range, 2 * windowSeconds * 1000);
    count.markAdded(added, sums, clock());
    count.knownUntil = second;
  }
}
