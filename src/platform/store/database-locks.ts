import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { inTime } from '../base/in-time.ts';
import type { Lock, Locks } from '../base/lock.ts';
import type { Database } from './database.ts';
import { interval } from './statements.ts';

/** A database that is slower than this counts as unavailable: a request waits for the lock. In milliseconds. */
const longestWaitMs = 1000;
const tooSlow = () => new Error('the database is too slow');

/** Locks as rows of the table `locks`; all times are the database's clock. */
export function createDatabaseLocks(database: Database): Locks {
  const queries = database.sql;
  return {
    async acquireLock(key, ttlMs): Promise<Lock | undefined> {
      const owner = randomUUID();
      const own = sql`name = ${key} and owner = ${owner} and held_until > clock_timestamp()`;
      const release = async () => {
        await sql`update locks set held_until = clock_timestamp() where ${own}`.execute(queries);
      };
      const taking = sql<{ fence: string }>`
        insert into locks as l (name, owner, fence, held_until)
        values (${key}, ${owner}, 1, clock_timestamp() + ${interval(ttlMs / 1000)})
        on conflict (name) do update set owner = excluded.owner, fence = l.fence + 1, held_until = excluded.held_until
        where l.held_until <= clock_timestamp()
        returning fence::text`.execute(queries);
      const { rows } = await inTime(taking, longestWaitMs, tooSlow).catch((error: unknown) => {
        // The statement may take the lock after all, when nobody waits for it any more.
        taking.then(release).catch(() => undefined);
        throw error;
      });
      const [row] = rows;
      if (row === undefined) return undefined;
      const held = () => sql`select 1 from locks where ${own}`.execute(queries);
      return {
        fence: Number(row.fence),
        isHeld: async () => (await inTime(held(), longestWaitMs, tooSlow)).rows.length === 1,
        release: () => inTime(release(), longestWaitMs, tooSlow),
      };
    },
  };
}

/**
 * Takes a lock for so many seconds, or keeps it where this owner has it; false while another has it. Throws what the
 * database does.
 */
export async function holdTurn(
  database: Database,
  name: string,
  owner: string,
  seconds: number,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    insert into locks as l (name, owner, fence, held_until)
    values (${name}, ${owner}, 1, clock_timestamp() + ${interval(seconds)})
    on conflict (name) do update set owner = excluded.owner, fence = l.fence + 1, held_until = excluded.held_until
    where l.held_until <= clock_timestamp() or l.owner = excluded.owner`.execute(database.sql);
  return numAffectedRows === 1n;
}
