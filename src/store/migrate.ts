import { readdirSync, readFileSync } from 'node:fs';
import type { Database } from './database.ts';

const folder = new URL('./migrations/', import.meta.url);

interface Migration {
  version: number;
  name: string;
  sql: string;
}

/**
 * Applies the numbered files of `migrations/` that the database does not have yet, all in one transaction: also one
 * with a number below others that it has, as comes about when two changes are made side by side. Several processes may
 * start at once: one applies, the others find nothing left to do. Throws when the database is newer than this program.
 */
export async function migrate(database: Database): Promise<void> {
  const migrations = readMigrations();
  await database.migrate((applied) => {
    const { foreign, missing } = compare(applied, migrations);
    if (foreign !== undefined) {
      throw new Error(
        `The database has schema version ${foreign}, which this program does not know: ` +
          'run the newer program, or restore a backup from before its migration.',
      );
    }
    return missing.map(({ version, name, sql }) => `${sql}\n${recordOf(version, name)}`);
  });
}

export interface SchemaComparison {
  /** The newest migration that the database has; 0: none. */
  applied: number;
  /** The newest that this program has. */
  known: number;
  /** How many migrations of this program the database lacks. */
  missing: number;
  /** The newest migration of the database that this program does not know, if any. */
  foreign: number | undefined;
}

/** How far the database is. Changes nothing. */
export async function compareSchema(database: Database): Promise<SchemaComparison> {
  const migrations = readMigrations();
  const history = await database.execute("select to_regclass('schema_migrations') is not null as made");
  const isMade = (history.rows[0] as { made: boolean }).made;
  const rows = isMade ? (await database.execute(selectVersions)).rows : [];
  const applied = (rows as { version: number }[]).map(({ version }) => version);
  const { foreign, missing } = compare(applied, migrations);
  const known = migrations.at(-1)?.version ?? 0;
  return { applied: applied.at(-1) ?? 0, known, missing: missing.length, foreign };
}

function compare(
  applied: readonly number[],
  migrations: readonly Migration[],
): { foreign: number | undefined; missing: Migration[] } {
  const known = new Set(migrations.map(({ version }) => version));
  return {
    foreign: applied.findLast((version) => !known.has(version)),
    missing: migrations.filter(({ version }) => !applied.includes(version)),
  };
}

/** Statement that makes the table of applied migrations; harmless when it is there. */
export const createHistory =
  'create table if not exists schema_migrations (' +
  'version integer primary key, name text not null, applied_at timestamptz not null default now())';

/** Query for the migrations that the database has, the newest last. */
export const selectVersions = 'select version from schema_migrations order by version';

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
