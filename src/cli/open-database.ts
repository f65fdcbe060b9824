import { join } from 'node:path';
import { lockDataDir } from '../base/data-dir-lock.ts';
import { createLog } from '../observability/log.ts';
import type { Settings } from '../settings/settings.ts';
import type { Database } from '../store/database.ts';
import { openPglite } from '../store/pglite.ts';
import { openPostgres } from '../store/postgres.ts';

/**
 * The database of the settings, closed with `opened`. The embedded one belongs to one process: where a service uses it,
 * throws `FileLockHeld`, which names it. `purpose` says to others who uses it now.
 */
export async function openDatabase(
  { databaseUrl, dataDir }: Settings,
  opened: AsyncDisposableStack,
  purpose: string,
): Promise<Database> {
  let database: Database;
  if (databaseUrl) {
    database = openPostgres({ url: databaseUrl, log: createLog('silent') });
  } else {
    const lock = await lockDataDir(dataDir, purpose);
    opened.defer(() => lock.release());
    database = await openPglite(join(dataDir, 'database'));
  }
  opened.defer(() => database.close());
  return database;
}
