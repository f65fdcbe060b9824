import { join } from 'node:path';
import { lockDataDir } from '../base/data-dir-lock.ts';
import { createLog } from '../observability/log.ts';
import { loadSettings, type Settings } from '../settings/settings.ts';
import type { Database } from '../store/database.ts';
import { migrate } from '../store/migrate.ts';
import { openPglite } from '../store/pglite.ts';
import { openPostgres } from '../store/postgres.ts';

/** Applies the migrations that the database does not have; the service does the same when it starts. */
export async function migrateDatabase(configFile: string | undefined): Promise<void> {
  const settings = loadSettings(process.env, configFile);
  await using opened = new AsyncDisposableStack();
  const database = await openDatabase(settings, opened);
  await migrate(database);
  process.stdout.write('The schema of the database is up to date.\n');
}

async function openDatabase(settings: Settings, opened: AsyncDisposableStack): Promise<Database> {
  let database: Database;
  if (settings.databaseUrl) {
    database = openPostgres({ url: settings.databaseUrl, log: createLog('silent') });
  } else {
    const lock = await lockDataDir(settings.dataDir, 'handoff migrate');
    opened.defer(() => lock.release());
    database = await openPglite(join(settings.dataDir, 'database'));
  }
  opened.defer(() => database.close());
  return database;
}
