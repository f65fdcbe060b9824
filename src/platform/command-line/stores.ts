import { join } from 'node:path';
import { monotonicMs, sleep } from '../base/chance.ts';
import { FileLockHeld, lockDataDir } from '../base/files.ts';
import type { SharedCache } from '../cache/shared-cache.ts';
import { createLog } from '../observability/log.ts';
import type { Settings } from '../settings/table.ts';
import type { Database } from '../store/database.ts';
import { compareSchema } from '../store/migrate.ts';

const longestConnectMs = 2000;

/**
 * The database of the settings, closed with `opened`. The embedded one belongs to one process: where a service uses it,
 * throws `FileLockHeld`, which names it. `purpose`: what this process does, shown to others meanwhile.
 */
export async function openDatabase(
  { databaseUrl, dataDir }: Settings,
  opened: AsyncDisposableStack,
  purpose: string,
): Promise<Database> {
  // Loaded only where it is used: `handoff serve` would pay for both in memory and time.
  if (databaseUrl) {
    const { openPostgres } = await import('../store/postgres.ts');
    const database = openPostgres({ url: databaseUrl, log: createLog('silent') });
    opened.defer(() => database.close());
    return database;
  }
  const lock = await lockDataDir(dataDir, purpose).catch(explainHeld);
  opened.defer(() => lock.release());
  const { openPglite } = await import('../store/pglite.ts');
  const database = await openPglite(join(dataDir, 'database'));
  opened.defer(() => database.close());
  return database;
}

function explainHeld(error: unknown): never {
  if (error instanceof FileLockHeld) {
    error.message +=
      '. Only one process can use the embedded database. Stop the other one, or use PostgreSQL (databaseUrl).';
  }
  throw error;
}

export async function openDatabaseToRead(
  settings: Settings,
  opened: AsyncDisposableStack,
  purpose: string,
): Promise<Database> {
  try {
    return await openDatabase(settings, opened, purpose);
  } catch (error) {
    if (!(error instanceof FileLockHeld)) throw error;
    const { openReads, readsSocket } = await import('../store/database-reads.ts');
    // A service that still starts, or another command: the lock's message says who.
    const database = await openReads(join(settings.dataDir, readsSocket)).catch(() => {
      throw error;
    });
    opened.defer(() => database.close());
    return database;
  }
}

/** The database, with every table as this program knows it. Throws where the schema is older, or too new for this program. */
export async function checkMigrated(database: Database): Promise<Database> {
  const { applied, known, missing, refusal } = await compareSchema(database);
  if (refusal !== undefined) throw new Error(refusal);
  if (missing === 0) return database;
  throw new Error(
    `The database has schema version ${applied}, ${missing} behind this program's version ${known}. ` +
      'Run `handoff migrate`, or start the gateway.',
  );
}

/** The cache in Redis, connected if that is possible within 2 s, and closed with `opened`. */
export async function connectRedis(url: string, opened: AsyncDisposableStack): Promise<SharedCache> {
  const { createRedisCache } = await import('../cache/redis.ts');
  const cache = createRedisCache({ url, log: createLog('silent') });
  opened.defer(() => cache.close());
  const isConnected = () =>
    cache.checkHealth().then(
      () => true,
      () => false,
    );
  const until = monotonicMs() + longestConnectMs;
  while (!(await isConnected()) && monotonicMs() < until) await sleep(20);
  return cache;
}
