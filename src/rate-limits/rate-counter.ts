import { crc32 } from 'node:zlib';
import type { SharedCache } from '../cache/shared-cache.ts';

export const windowSeconds = 60;
const windowMs = windowSeconds * 1000;
/** Keys that are counted at once; beyond that the oldest tenth of them is dropped. */
const maxKeys = 100_000;
/** Additions to the shared cache that are in flight at once. */
const parallelAdditions = 100;

/** What a key has left in the current window. */
export interface RateLimitResult {
  /** Whether this one was still within the limit. */
  allowed: boolean;
  remaining: number;
  /** Whole seconds until the window ends, at least 1. */
  resetSeconds: number;
}

interface Count {
  /** End of the window, milliseconds since 1970. */
  end: number;
  /** Of all replicas, as the shared cache last reported. */
  shared: number;
  /** Of this replica, not yet added to the shared cache. */
  own: number;
  /** Is in the list of those that have something to add. */
  waiting: boolean;
}

export interface RateCounterOptions {
  /** What is counted, for the keys in the shared cache. */
  name: string;
  limit: number;
  cache: SharedCache;
  /** Milliseconds since 1970. */
  clock: () => number;
}

/**
 * Counts by key in windows of a minute. Each replica counts by itself and `reconcile` adds its counts to those of the
 * others; so a limit may be passed by what the replicas let through between two calls. Without the shared cache each
 * replica goes on by itself. Each key has its own start of windows, so that callers do not all return at once.
 */
export class RateCounter {
  readonly #options: RateCounterOptions;
  readonly #counts = new Map<string, Count>();
  #waiting: [string, Count][] = [];

  constructor(options: RateCounterOptions) {
    this.#options = options;
  }

  /** Keys that are counted. */
  get size(): number {
    return this.#counts.size;
  }

  /** Counts one; those beyond the limit are refused and not counted. */
  take(key: string): RateLimitResult {
    const { limit, clock } = this.#options;
    const now = clock();
    const count = this.#current(key, now);
    const resetSeconds = Math.max(1, Math.ceil((count.end - now) / 1000));
    const used = count.shared + count.own;
    if (used >= limit) return { allowed: false, remaining: 0, resetSeconds };
    count.own += 1;
    if (!count.waiting) this.#waiting.push([key, count]);
    count.waiting = true;
    return { allowed: true, remaining: limit - used - 1, resetSeconds };
  }

  /** Whether the next one would be refused. Counts nothing. */
  isReached(key: string): boolean {
    const { limit, clock } = this.#options;
    const { shared, own } = this.#current(key, clock());
    return shared + own >= limit;
  }

  /** Adds the counts of this replica to the shared cache and reads those of the others. Throws `CacheUnavailable`. */
  async reconcile(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    const entries = waiting.values();
    const work = async () => {
      for (const [key, count] of entries) await this.#add(key, count);
    };
    // All are awaited, so that nothing is added twice; each of them ends with the first error.
    const workers = Array.from({ length: Math.min(parallelAdditions, waiting.length) }, work);
    const outcomes = await Promise.allSettled(workers);
    // What was not added stays counted here, and is added later if its window has not ended by then.
    const now = this.#options.clock();
    for (const [key, count] of waiting) {
      count.waiting = count.own > 0 && count.end > now;
      if (count.waiting) this.#waiting.push([key, count]);
    }
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw failed.reason as Error;
  }

  /** Forgets windows that have ended. */
  sweep(): void {
    const now = this.#options.clock();
    for (const [key, { end }] of this.#counts) if (end <= now) this.#counts.delete(key);
  }

  #current(key: string, now: number): Count {
    const known = this.#counts.get(key);
    // The second comparison is for a clock that was set back.
    if (known !== undefined && now < known.end && known.end - now <= windowMs) return known;
    const offset = crc32(key) % windowMs;
    const end = (Math.floor((now - offset) / windowMs) + 1) * windowMs + offset;
    const count = { end, shared: 0, own: 0, waiting: false };
    this.#counts.delete(key);
    if (this.#counts.size >= maxKeys) this.#dropOldest();
    this.#counts.set(key, count);
    return count;
  }

  #dropOldest(): void {
    this.sweep();
    let tooMany = this.#counts.size - 0.9 * maxKeys;
    for (const key of this.#counts.keys()) {
      if (tooMany-- <= 0) return;
      this.#counts.delete(key);
    }
  }

  async #add(key: string, count: Count): Promise<void> {
    const { name, cache, clock } = this.#options;
    if (count.end <= clock()) return;
    const { own } = count;
    const sum = await cache.increment(`rate:${name}:${key}:${count.end}`, own, 2 * windowMs);
    // A cache that lost its content knows less than this replica.
    count.shared = Math.max(sum, count.shared);
    count.own -= own;
  }
}
