import { type RawBuilder, sql } from 'kysely';
import { now, sleep } from '../base/chance.ts';
import type { Database } from './database.ts';
import { leaseSeconds } from './leases.ts';
import { changeInChunks } from './statements.ts';

/** Somebody's work is waited for at most until its lease is over: then a process that died or stood still does no more. */
const longestMs = (leaseSeconds + 1) * 1000;
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
  for (const start = now(); now() - start < longestMs; await sleep(pauseMs)) {
    await remove(isIdle);
    if (!(await isAnyLeft())) return;
  }
  await remove(sql`true`);
}
