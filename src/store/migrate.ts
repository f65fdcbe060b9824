import { readdirSync, readFileSync } from 'node:fs';
import type { Database } from './database.ts';

const folder = new URL('./migrations/', import.meta.url);

interface Migration {
  version: number;
  name: string;
  sql: string;
}

/**
 * Applies the numbered files of `migrations/` that the database does not have yet, all in one transaction. Several
 * processes may start at once: one applies, the others find nothing left to do. Throws when the database is newer
 * than this program.
 */
export async function migrate(database: Database): Promise<void> {
  const migrations = readMigrations();
  const newest = migrations.at(-1)?.version ?? 0;
  await database.migrate((applied) => {
    if (applied > newest) {
      throw new Error(
        `The database has schema version ${applied}, and this program knows ${newest}: ` +
          'run the newer program, or restore a backup from before its migration.',
      );
    }
    return migrations
      .filter(({ version }) => version > applied)
      .map(({ version, name, sql }) => `${sql}\n${recordOf(version, name)}`);
  });
}

/** The newest migration that the database has (0: none), and the newest that this program has. Changes nothing. */
export async function compareSchema(database: Database): Promise<{ applied: number; known: number }> {
  const known = readMigrations().at(-1)?.version ?? 0;
  const history = await database.execute("select to_regclass('schema_migrations') is not null as made");
  if (!(history.rows[0] as { made: boolean }).made) return { applied: 0, known };
  const { rows } = await database.execute(selectVersion);
  return { applied: (rows[0] as { version: number }).version, known };
}

/** Statement that makes the table of applied migrations; harmless when it is there. */
export const createHistory =
  'create table if not exists schema_migrations (' +
  'version integer primary key, name text not null, applied_at timestamptz not null default now())';

/** Query for the newest migration that the database has. */
export const selectVersion = 'select coalesce(max(version), 0)::int as version from schema_migrations';

function recordOf(version: number, name: string): string {
  return `insert into schema_migrations (version, name) values (${version}, '${name}');`;
}

function readMigrations(): Migration[] {
  return readdirSync(folder)
    .filter((file) => /^\d{4}-[a-z0-9-]+\.sql$/.test(file))
    .sort()
    .map((file) => ({
      version: Number(file.slice(0, 4)),
      name: file.slice(5, -4),
      sql: readFileSync(new URL(file, folder), 'utf8'),
    }));
}
