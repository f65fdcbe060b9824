import { sql } from 'kysely';
import { now, randomUUID } from '../base/chance.ts';
import type { Lock, Locks } from '../base/lock.ts';
import { inTime } from '../base/waiting.ts';
import type { Database } from './database.ts';
import type { Held } from './leases.ts';
import { interval } from './statements.ts';

/** A database that is slower than this counts as unavailable: a request waits for the lock. In milliseconds. */
const longestWaitMs = 1000;
const tooSlow = () => new Error('the database is too slow');

/** Locks as rows of the table `locks`, which are leased; all times are the database's clock. */
export function createDatabaseLocks(database: Database): Locks {
  const queries = database.sql;
  return {
    async acquireLock(key, ttlMs): Promise<Lock | undefined> {
      const owner = randomUUID();
      const own = sql`name = ${key} and owner = ${owner} and held_until > clock_timestamp()`;
      const release = async () => {
        await sql`update locks set held_until = clock_timestamp() where ${own}`.execute(queries);
      };
      const taking = leaseLock(database, key, owner, ttlMs / 1000);
      const leased = await inTime(taking, longestWaitMs, tooSlow).catch((error: unknown) => {
        // The statement may take the lock after all, when nobody waits for it any more.
        taking.then(release).catch(() => undefined);
        throw error;
      });
      if (leased === undefined) return undefined;
      const held = () => sql`select 1 from locks where ${own}`.execute(queries);
      return {
        fence: leased.fence,
        isHeld: async () => (await inTime(held(), longestWaitMs, tooSlow)).rows.length === 1,
        release: () => inTime(release(), longestWaitMs, tooSlow),
      };
    },
  };
}

/**
 * Leases a lock for this many seconds, also where this owner has it already; undefined while another has it. Throws what
 * the database does.
 */
export async function leaseLock(
  database: Database,
  name: string,
  owner: string,
  seconds: number,
): Promise<({ fence: number } & Held) | undefined> {
  const deadline = now() + seconds * 1000;
  const { rows } = await sql<{ fence: string }>`
    insert into locks as l (name, owner, fence, held_until)
    values (${name}, ${owner}, 1, clock_timestamp() + ${interval(seconds)})
    on conflict (name) do update set owner = excluded.owner, fence = l.fence + 1, held_until = excluded.held_until
    where l.held_until <= clock_timestamp() or l.owner = excluded.owner
    returning fence::text`.execute(database.sql);
  return rows[0] && { fence: Number(rows[0].fence), deadline };
}

/** Seconds until a lease ends; 0 where it has. Throws what the database does. */
export async function leasedFor(database: Database, name: string): Promise<number> {
  const { rows } = await sql<{ seconds: number }>`
    select extract(epoch from held_until - clock_timestamp())::double precision as seconds
    from locks where name = ${name}`.execute(database.sql);
  return Math.max(0, rows[0]?.seconds ?? 0);
}

/** Ends and forgets all leases whose names begin so. Throws what the database does. */
export async function endLeases(database: Database, start: string): Promise<void> {
  await sql`delete from locks where starts_with(name, ${start})`.execute(database.sql);
}
