import { join } from 'node:path';
import { makeFolder } from '../base/durable-file.ts';
import { tryAcquireFileLock } from '../base/file-lock.ts';
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
    await makeFolder(settings.dataDir);
    const path = join(settings.dataDir, 'in-use');
    const lock = await tryAcquireFileLock(path, { purpose: 'handoff migrate', subject: settings.dataDir });
    opened.defer(() => lock.release());
    database = await openPglite(join(settings.dataDir, 'database'));
  }
  opened.defer(() => database.close());
  return database;
}
