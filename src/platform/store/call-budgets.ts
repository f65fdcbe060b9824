import { sql } from 'kysely';
import { inTime } from '../base/in-time.ts';
import type { Database } from './database.ts';

/** A database that is slower than this counts as away: requests wait for it. In milliseconds. */
const longestWaitMs = 1000;
const tooSlow = () => new Error('the database is too slow');

/** A value of the table `call_budgets`, with the database's clock. Methods throw what the database does. */
export function createCallBudget(database: Database, name: string) {
  return {
    async read(): Promise<{ text: string | undefined; now: number }> {
      const reading = sql<{ state: string | null; now: number }>`
        select extract(epoch from clock_timestamp())::float8 * 1000 as now,
          (select state from call_budgets where name = ${name}) as state`.execute(database.sql);
      const [row] = (await inTime(reading, longestWaitMs, tooSlow)).rows;
      return { text: row?.state ?? undefined, now: row?.now ?? 0 };
    },
    /** Replaces the text where it still is the expected one; whether it did. */
    async replace(expected: string | undefined, text: string): Promise<boolean> {
      const change =
        expected === undefined
          ? sql`insert into call_budgets (name, state) values (${name}, ${text}) on conflict do nothing`
          : sql`update call_budgets set state = ${text} where name = ${name} and state = ${expected}`;
      const { numAffectedRows } = await inTime(change.execute(database.sql), longestWaitMs, tooSlow);
      return numAffectedRows === 1n;
    },
  };
}
