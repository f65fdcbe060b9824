import { type QueryResult, type RawBuilder, sql } from 'kysely';
import { testIdStart, type Visible } from '../base/call.ts';
import type { Database } from './database.ts';
import { isStatementTimeout } from './failures.ts';

/*
 * What the table modules share. Each is a class named after its table (`ClaimsTable`, `claims-table.ts`) with the SQL
 * of that table; each move of a row is one statement, and the database's clock decides. Methods throw what the database
 * does, unless they say otherwise.
 */

/** The time of the transaction, to the millisecond as answers show it: what is stored is what is shown. */
export const timeNow = sql.raw("date_trunc('milliseconds', now())");

/**
 * JSON for a statement, of texts from anywhere. PostgreSQL takes no half of a surrogate pair and no NUL: they are replaced, so that one
 * row doesn't keep out the others.
 */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'string' ? inner.toWellFormed().replaceAll('\0', '\ufffd') : inner,
  );
}

/** A row with undefined in place of null, as objects of the domain have it. */
export function withoutNulls(row: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value ?? undefined]));
}

export function interval(seconds: number) {
  return sql`make_interval(secs => ${seconds}::double precision)`;
}

/** Condition: the id of a consumer is that of a test consumer. Null counts as live. */
export function isOfTest(consumerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`coalesce(starts_with(${consumerId}, ${sql.lit(testIdStart)}), false)`;
}

export function containing(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`;
}

export function isRowVisible(visible: Visible, consumerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return visible === 'all' ? sql`not ${isOfTest(consumerId)}` : sql`${consumerId} = ${visible.consumerId}`;
}

/**
 * Begins a statement of the hot path that PostgreSQL parses and plans once for each connection. Its text must never
 * vary. The embedded database plans it each time.
 */
export function preparedAs(name: string): RawBuilder<unknown> {
  return sql.raw(`/* prepared as ${name} */`);
}

/**
 * Part of a `with` clause: `old` has the counts of processes for periods before `before`, which it deletes, to be added up. The last
 * period of each process stays: one that was cut off meanwhile may have counted on, and periods are stored in order.
 */
export function takeOldCounts(
  table: string,
  period: string,
  before: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const [counts, column] = [sql.table(table), sql.ref(period)];
  return sql`
    last as (select process, max(${column}) as period from ${counts} where process <> '' group by 1),
    old as (
      delete from ${counts} counted using last
      where counted.process = last.process and counted.${column} < least(last.period, ${before})
      returning counted.*)`;
}

/**
 * Changes or deletes many rows, at most `limit` in one statement: a longer one would hold locks and fill the log of the
 * database. A statement that takes too long is repeated with half as many rows, so that a table is cleared even if rows are
 * large or the disk is slow. Ends when a statement finds fewer rows, or between two statements when `signal` is aborted: the
 * next run does what is left. Returns how many rows there were. Throws what the database does.
 */
export async function changeInChunks(
  queries: Database['bulk'],
  limit: number,
  statement: (limit: number) => RawBuilder<unknown>,
  signal?: AbortSignal,
): Promise<number> {
  let changed = 0;
  for (let size = limit; !signal?.aborted; ) {
    try {
      const { numAffectedRows = 0n } = await statement(size).execute(queries);
      changed += Number(numAffectedRows);
      if (numAffectedRows < size) break;
    } catch (error) {
      if (size === 1 || !isStatementTimeout(error)) throw error;
      size = Math.ceil(size / 2);
    }
  }
  return changed;
}

/** Rows that one statement searches at most: each may hold over 128 KiB of text. */
export const searchedAtOnce = 50;

/** Result of a statement of `changeInSearch`; `last`: the last key that it searched, null where there was none. */
export interface SearchedChunk<Key> {
  last: Key | null;
  changed: number;
}

/**
 * Searches a whole table in the order of a key for rows to change; each statement begins after the last key of the one
 * before. Returns how many rows were changed.
 */
export async function changeInSearch<Key>(
  queries: Database['sql'],
  first: Key,
  statement: (after: Key) => RawBuilder<SearchedChunk<Key>>,
): Promise<number> {
  let changed = 0;
  for (let after: Key | null = first; after !== null; ) {
    const { rows }: QueryResult<SearchedChunk<Key>> = await statement(after).execute(queries);
    changed += rows[0]?.changed ?? 0;
    after = rows[0]?.last ?? null;
  }
  return changed;
}
