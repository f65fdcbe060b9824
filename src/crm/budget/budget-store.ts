import { sql } from 'kysely';
import { inTime } from '../../platform/base/waiting.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { Database } from '../../platform/store/database.ts';

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
