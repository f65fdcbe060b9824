import { loadSettings } from '../settings/settings.ts';
import { migrate } from '../store/migrate.ts';
import { openDatabase } from './open-database.ts';

/** Applies the migrations that the database does not have; the service does the same when it starts. */
export async function migrateDatabase(configFile: string | undefined): Promise<void> {
  const settings = loadSettings(process.env, configFile);
  await using opened = new AsyncDisposableStack();
  await migrate(await openDatabase(settings, opened, 'handoff migrate'));
  process.stdout.write('The schema of the database is up to date.\n');
}
