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
  type SyncRequest,
  sync,
  usedIn,
} from './bucket.ts';
import type { BudgetStore } from './budget-store.ts';

/** Other replicas may change the bucket at the same time. */
const mostTries = 50;

/** The change may have been stored, although the store did not confirm it. */
export class OutcomeUnknown extends Error {}

/** The bucket in its store, and what this replica last saw of it. */
export class SharedBucket {
  readonly #store: BudgetStore;
  readonly #limits: BudgetLimits;
  #bucket: Bucket | undefined;
  /** Milliseconds that the store's clock is ahead of `performance.now()`. */
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
    return availableIn(this.#bucket, performance.now() + this.#offset, this.#limits);
  }

  /** Calls of the last 24 hours. */
  get used(): number {
    return this.#bucket === undefined ? 0 : usedIn(this.#bucket, performance.now() + this.#offset);
  }

  /** Takes and returns calls. Throws what the store does, and `OutcomeUnknown`. */
  async sync(request: SyncRequest): Promise<Grant> {
    for (let tries = 0; tries < mostTries; tries++) {
      const { text, now } = await this.#store.read();
      const before = this.#adopt(parseBucket(text), now);
      const { bucket, grant, isChanged } = sync(before, request, now, this.#limits);
      if (isChanged && !(await this.#replace(text, bucket))) continue;
      this.#bucket = bucket;
      this.#seenAt = performance.now();
      this.#offset = now - this.#seenAt;
      return grant;
    }
    throw new Error('other replicas change the budget all the time');
  }

  async #replace(expected: string | undefined, bucket: Bucket): Promise<boolean> {
    try {
      return await this.#store.replace(expected, JSON.stringify(bucket));
    } catch (cause) {
      throw new OutcomeUnknown('the store did not answer', { cause });
    }
  }

  /**
   * The bucket that the store has. Where it lacks what this replica knows (a store that was restored has an earlier state,
   * one that was emptied has another bucket), that is added.
   */
  #adopt(stored: Bucket | undefined, now: number): Bucket {
    const found = stored ?? newBucket(randomUUID(), now);
    const known = this.#bucket;
    const hasAll = known === undefined || (found.id === known.id && found.at >= known.at);
    return hasAll ? found : merge(found, known, now, this.#limits);
  }
}
