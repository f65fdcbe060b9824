import { randomUUID } from 'node:crypto';
import type { Lock, Locks } from '../base/lock.ts';
import type { Database } from './database.ts';

/** A database that is slower than this counts as away: whoever wants a lock has a request waiting. */
const longestWaitMs = 1000;

/** Locks as rows of the table `locks`; all times are the database's clock. */
export function createDatabaseLocks(database: Database): Locks {
  const run = async (text: string, values: unknown[]) => (await database.execute(text, values)).rows;
  const own = 'name = $1 and owner = $2 and held_until > clock_timestamp()';
  const release = async (key: string, owner: string) => {
    await run(`update locks set held_until = clock_timestamp() where ${own}`, [key, owner]);
  };
  return {
    async acquireLock(key, ttlMs): Promise<Lock | undefined> {
      const owner = randomUUID();
      const taking = run(takeSql, [key, owner, ttlMs]) as Promise<{ fence: string }[]>;
      const [row] = await inTime(taking).catch((error: unknown) => {
        // It may be ours after all, when nobody waits any more.
        taking.then(() => release(key, owner)).catch(() => undefined);
        throw error;
      });
      if (row === undefined) return undefined;
      return {
        fence: Number(row.fence),
        isHeld: async () =>
          (await inTime(run(`select 1 from locks where ${own}`, [key, owner]))).length === 1,
        release: () => inTime(release(key, owner)),
      };
    },
  };
}

const takeSql = `
  insert into locks as l (name, owner, fence, held_until)
  values ($1, $2, 1, clock_timestamp() + make_interval(secs => $3::double precision / 1000))
  on conflict (name) do update set owner = excluded.owner, fence = l.fence + 1, held_until = excluded.held_until
  where l.held_until <= clock_timestamp()
  returning fence::text`;

async function inTime<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('the database is too slow')), longestWaitMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
