import { sql } from 'kysely';
import { monotonicMs, randomUUID } from '../../platform/base/chance.ts';
import { dayMs } from '../../platform/base/moment.ts';
import { inTime } from '../../platform/base/waiting.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { Database } from '../../platform/store/database.ts';
import {
  availableIn,
  type Bucket,
  type BudgetLimits,
  type Grant,
  merge,
  newBucket,
  parseBucket,
  rateIn,
  replicasIn,
  type SyncRequest,
  sync,
  usedIn,
} from './bucket.ts';

const mostTries = 50;

const fewCalls = 2;

export class OutcomeUnknown extends Error {}

export class SharedBucket {
  readonly #store: BudgetStore;
  readonly #limits: BudgetLimits;
  #bucket: Bucket | undefined;
  /** Milliseconds that the store's clock is ahead of `monotonicMs()`. */
  #offset = 0;
  #seenAt = Number.NEGATIVE_INFINITY;

  constructor(store: BudgetStore, limits: BudgetLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  get isKnown(): boolean {
    return this.#bucket !== undefined;
  }

  get age(): number {
    return monotonicMs() - this.#seenAt;
  }

  get replicas(): number {
    return this.#bucket === undefined ? 1 : Math.max(1, replicasIn(this.#bucket, this.#bucket.at));
  }

  get available(): number {
    if (this.#bucket === undefined) return this.#limits.burst;
    return availableIn(this.#bucket, monotonicMs() + this.#offset, this.#limits);
  }

  get used(): number {
    return this.#bucket === undefined ? 0 : usedIn(this.#bucket, monotonicMs() + this.#offset);
  }

  get org(): { used: number; limit: number } | undefined {
    const { used, limit } = this.#bucket?.org ?? {};
    return used === undefined || limit === undefined ? undefined : { used, limit };
  }

  /** Milliseconds until no call is free at the last hour's rate; 0: that is so now; Infinity: not within a day. */
  get exhaustedInMs(): number {
    if (this.#bucket === undefined) return Number.POSITIVE_INFINITY;
    if (this.available < fewCalls) return 0;
    const now = monotonicMs() + this.#offset;
    const excess = rateIn(this.#bucket, now) - this.#limits.rate;
    const ms = excess > 0 ? this.available / excess : dayMs;
    return ms < dayMs ? ms : Number.POSITIVE_INFINITY;
  }

  /** Takes and returns calls. Throws what the store does, and `OutcomeUnknown`. */
  async sync(request: SyncRequest): Promise<Grant> {
    for (let tries = 0; tries < mostTries; tries++) {
      const { text, now } = await this.#store.read();
      const before = this.#adopt(parseBucket(text), now);
      const { bucket, grant, isChanged } = sync(before, request, now, this.#limits);
      if (isChanged && !(await this.#replace(text, bucket))) continue;
      this.#bucket = bucket;
      this.#seenAt = monotonicMs();
      this.#offset = now - this.#seenAt;
      return grant;
    }
    throw new Error('other replicas change the budget all the time');
  }

  async #replace(expected: string | undefined, bucket: Bucket): Promise<boolean> {
    try {
      return await this.#store.replace(expected, JSON.stringify(bucket));
    } catch (cause) {
      throw new OutcomeUnknown("the store didn't answer", { cause });
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

export interface BudgetStore {
  /** The text, and milliseconds since some moment by the store's own clock. Throws while the store is unavailable. */
  read(): Promise<{ text: string | undefined; now: number }>;
  /** Replaces the text if it still is the expected one; returns whether it was. Throws while the store is unavailable. */
  replace(expected: string | undefined, text: string): Promise<boolean>;
}

const ttlMs = 48 * 3_600_000;

function keyOf(environment: string): string {
  return `crm_budget:${environment}`;
}

export function createCacheBudgetStore(cache: SharedCache, environment: string): BudgetStore {
  const key = keyOf(environment);
  return {
    async read() {
      const [text, now] = await Promise.all([cache.get(key), cache.time()]);
      return { text, now };
    },
    replace: (expected, text) => cache.setIfEqual(key, expected, text, ttlMs),
  };
}

/** A database that is slower than this counts as unavailable: requests wait for it. */
const longestWaitMs = 1000;
const tooSlow = () => new Error('the database is too slow');

export function createDatabaseBudgetStore(database: Database, environment: string): BudgetStore {
  const name = keyOf(environment);
  return {
    async read() {
      const reading = sql<{ state: string | null; now: number }>`
        select extract(epoch from clock_timestamp())::float8 * 1000 as now,
          (select state from call_budgets where name = ${name}) as state`.execute(database.sql);
      const [row] = (await inTime(reading, longestWaitMs, tooSlow)).rows;
      return { text: row?.state ?? undefined, now: row?.now ?? 0 };
    },
    async replace(expected, text) {
      const change =
        expected === undefined
          ? sql`insert into call_budgets (name, state) values (${name}, ${text}) on conflict do nothing`
          : sql`update call_budgets set state = ${text} where name = ${name} and state = ${expected}`;
      const { numAffectedRows } = await inTime(change.execute(database.sql), longestWaitMs, tooSlow);
      return numAffectedRows === 1n;
    },
  };
}
