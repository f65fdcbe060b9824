import { randomUUID } from 'node:crypto';
import {
  availableIn,
  type Bucket,
  type BudgetLimits,
  type Grant,
  merge,
  newBucket,
  parseBucket,
  replicasIn,
  usedIn,
  type Visit,
  visit,
} from './bucket.ts';
import type { BudgetStore } from './budget-store.ts';

/** Others may change it at the same time. */
const mostTries = 50;

/** The change may have been stored, although the store did not say so. */
export class OutcomeUnknown extends Error {}

/** The bucket in its store, and what this replica last saw of it. */
export class SharedBucket {
  readonly #store: BudgetStore;
  readonly #limits: BudgetLimits;
  #bucket: Bucket | undefined;
  /** What the store's clock is ahead of ours. */
  #offset = 0;
  /** By `performance.now()`. */
  #seenAt = Number.NEGATIVE_INFINITY;

  constructor(store: BudgetStore, limits: BudgetLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  get isKnown(): boolean {
    return this.#bucket !== undefined;
  }

  /** Milliseconds since it was seen. */
  get age(): number {
    return performance.now() - this.#seenAt;
  }

  /** Replicas that took part when it was last seen. */
  get replicas(): number {
    return this.#bucket === undefined ? 1 : Math.max(1, replicasIn(this.#bucket, this.#bucket.at));
  }

  /** Calls that may be made now, as far as is known. */
  get available(): number {
    if (this.#bucket === undefined) return this.#limits.burst;
    return availableIn(this.#bucket, this.#now(), this.#limits);
  }

  /** Calls of the last 24 hours. */
  get used(): number {
    return this.#bucket === undefined ? 0 : usedIn(this.#bucket, this.#now());
  }

  /** Throws what the store does, and `OutcomeUnknown`. */
  async visit(visitor: Visit): Promise<Grant> {
    for (let tries = 0; tries < mostTries; tries++) {
      const { text, now } = await this.#store.read();
      const before = this.#adopt(parseBucket(text), now);
      const { bucket, grant, isChanged } = visit(before, visitor, now, this.#limits);
      if (!isChanged || (await this.#replace(text, bucket))) {
        this.#note(bucket, now);
        return grant;
      }
    }
    throw new Error('the budget is changed by others all the time');
  }

  /** Only looks. Where it cannot be seen, what was seen last stays. */
  async look(): Promise<void> {
    try {
      const { text, now } = await this.#store.read();
      const stored = parseBucket(text);
      if (stored !== undefined && this.#bucket !== undefined && isLater(stored, this.#bucket))
        this.#note(stored, now);
    } catch {
      // The next visit says so.
    }
  }

  async #replace(expected: string | undefined, bucket: Bucket): Promise<boolean> {
    try {
      return await this.#store.replace(expected, JSON.stringify(bucket));
    } catch (cause) {
      throw new OutcomeUnknown('the store did not answer', { cause });
    }
  }

  /** What a store holds; where it has lost what this replica knows of, that is counted again. */
  #adopt(stored: Bucket | undefined, now: number): Bucket {
    const found = stored ?? newBucket(randomUUID(), now);
    const known = this.#bucket;
    return known === undefined || isLater(found, known) ? found : merge(found, known, now, this.#limits);
  }

  #note(bucket: Bucket, now: number): void {
    this.#bucket = bucket;
    this.#seenAt = performance.now();
    this.#offset = now - this.#seenAt;
  }

  #now(): number {
    return performance.now() + this.#offset;
  }
}

/** It has all that is known. A store that was restored has an earlier state of the same bucket. */
function isLater(stored: Bucket, known: Bucket): boolean {
  return stored.id === known.id && stored.at >= known.at;
}
