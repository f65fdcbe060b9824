import { type RawBuilder, sql } from 'kysely';
import { now, sleep } from '../base/chance.ts';
import type { Database } from './database.ts';
import { changeInChunks, interval } from './statements.ts';

/*
 * Processes share the work that rows of a table stand for. One of them leases a row and is its owner:
 *
 *   leased_until  nobody else takes the row until then; in the past once its owner has given it back
 *   fence         grows with each lease, and stands in every statement of the owner: so one that was replaced while it was
 *                 silent changes nothing
 *
 * Statements alone can't keep a replaced owner from calling another system. So each row that a process has leased carries
 * its deadline, and nothing is sent for the row after that. The time counts from before the statement that leases it: a
 * process may be stopped for any time before it reads the answer, and reads it before its timers run.
 *
 * Most tables call the first one `lease_until`; `leasesOf` says where a table has other names. The names stay, since the
 * program of the release before may run beside this one.
 */

/** How long an owner of a row may be silent: longer than a request lives, so that only dead owners are replaced. */
export const leaseSeconds = 30;
/** How long an owner works on a row, in milliseconds: what it sends last has an effect within the lease. */
const workMs = 25_000;

export interface Held {
  /** Milliseconds of `now()`: nothing is done for it from then on. */
  readonly deadline: number;
}

/** To be called before the statement that leases rows: what it returns gives them their deadline. */
export function deadlineFromNow() {
  const deadline = now() + workMs;
  return <Row>(rows: readonly Row[]): (Row & Held)[] => rows.map((row) => ({ ...row, deadline }));
}

export const leaseEnd = sql`now() + ${interval(leaseSeconds)}`;

/**
 * The fence of a new row, above every fence that an earlier row with the same key had: else an owner of the deleted row
 * that wakes up would pass for the owner of the new one.
 */
export const firstFence = sql.raw('(extract(epoch from now()) * 1000000)::bigint');

interface LeasedTable {
  table: string;
  row: string;
  key: readonly string[];
  leasedUntil?: string;
  fence?: string;
}

export function leasesOf({ table, row, key, leasedUntil = 'lease_until', fence = 'fence' }: LeasedTable) {
  const until = sql.ref(`${row}.${leasedUntil}`);
  const current = sql.ref(`${row}.${fence}`);
  const isOver = sql`${until} <= now()`;
  const begin = sql`${sql.ref(fence)} = ${current} + 1, ${sql.ref(leasedUntil)} = ${leaseEnd}`;
  return {
    begin,
    end: sql`${sql.ref(leasedUntil)} = now()`,
    isOver,
    isOf: (owned: string | number) => sql`${current} = ${owned}::bigint`,
    /** Leases rows; those that another statement takes at the same time are passed over. Throws what the database does. */
    async takeDue<Row>(
      queries: Database['sql'],
      {
        where,
        orderBy,
        limit,
        returning,
      }: { where: RawBuilder<unknown>; orderBy: string; limit: number; returning: RawBuilder<unknown> },
    ): Promise<(Row & Held)[]> {
      const withDeadline = deadlineFromNow();
      const isSame = key.map((name) => sql`${sql.ref(`${row}.${name}`)} = ${sql.ref(`due.${name}`)}`);
      const statement = sql<Row>`
        update ${sql.table(table)} as ${sql.ref(row)} set ${begin}
        from (
          select ${sql.join(key.map((name) => sql.ref(name)))} from ${sql.table(table)} as ${sql.ref(row)}
          where ${where} and ${isOver}
          order by ${sql.ref(orderBy)} limit ${limit} for update skip locked
        ) as due
        where ${sql.join(isSame, sql` and `)}
        returning ${returning}`;
      return withDeadline((await statement.execute(queries)).rows);
    },
  };
}

/** Somebody's work is waited for at most until its lease is over: then a process that died or stood still does no more. */
const longestWaitMs = (leaseSeconds + 1) * 1000;
const pauseMs = 25;
const deletedAtOnce = 500;

/**
 * Deletes rows for which work is done in leases. What somebody works on is waited for, so that nothing comes of a row once it is
 * deleted. Throws what the database does.
 */
export async function forgetRows(
  queries: Database['bulk'],
  {
    from,
    key,
    where,
    isIdle,
  }: { from: RawBuilder<unknown>; key: string; where: RawBuilder<unknown>; isIdle: RawBuilder<unknown> },
): Promise<void> {
  const id = sql.ref(key);
  const remove = (which: RawBuilder<unknown>) =>
    changeInChunks(
      queries,
      deletedAtOnce,
      (limit) => sql`
        delete from ${from} where ${id} in (select ${id} from ${from} where ${where} and ${which} limit ${limit})`,
    );
  const isAnyLeft = async () =>
    (await sql`select from ${from} where ${where} limit 1`.execute(queries)).rows.length > 0;
  for (const start = now(); now() - start < longestWaitMs; await sleep(pauseMs)) {
    await remove(isIdle);
    if (!(await isAnyLeft())) return;
  }
  await remove(sql`true`);
}
