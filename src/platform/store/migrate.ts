import { readdirSync, readFileSync } from 'node:fs';
import type { AppliedMigration, Database } from './database.ts';

const folder = new URL('./migrations/', import.meta.url);

interface Migration {
  version: number;
  name: string;
  /** The first line says which programs run on it; where it does not, only those that have the migration. */
  oldestProgram: number;
  sql: string;
}

/**
 * Applies the numbered files of `migrations/` that the database does not have yet, all in one transaction: also one
 * with a number below others that it has, as comes about when two changes are made side by side. Several processes may
 * start at once: one applies, the others find nothing left to do. Throws when the database has migrations that this
 * program does not know, unless each of them says that this program runs on it.
 */
export async function migrate(database: Database): Promise<void> {
  const migrations = readMigrations();
  await database.migrate((applied) => {
    const { refusal, missing } = compare(applied, migrations);
    if (refusal !== undefined) throw new Error(refusal);
    return missing.map((migration) => `${migration.sql}\n${recordOf(migration)}`);
  });
}

/** Changes nothing. */
export async function compareSchema(database: Database): Promise<{
  /** 0: none. */
  applied: number;
  known: number;
  missing: number;
  /** Why this program does not run on it, in words; undefined where it does. */
  refusal: string | undefined;
}> {
  const migrations = readMigrations();
  const history = await database.execute("select to_regclass('schema_migrations') is not null as made");
  const isMade = (history.rows[0] as { made: boolean }).made;
  const applied = (isMade ? (await database.execute(selectApplied)).rows : []) as AppliedMigration[];
  const { refusal, missing } = compare(applied, migrations);
  const known = migrations.at(-1)?.version ?? 0;
  return { applied: applied.at(-1)?.version ?? 0, known, missing: missing.length, refusal };
}

function compare(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): { refusal: string | undefined; missing: Migration[] } {
  const known = new Set(migrations.map(({ version }) => version));
  const newest = migrations.at(-1)?.version ?? 0;
  const refusing = applied.filter(
    ({ version, oldest_program: oldest }) => !known.has(version) && (oldest === null || oldest > newest),
  );
  const done = new Set(applied.map(({ version }) => version));
  return {
    refusal: refusalOf(refusing, applied.at(-1)?.version ?? 0, newest),
    missing: migrations.filter(({ version }) => !done.has(version)),
  };
}

/** `version`: the database's; `newest`: this program's. Undefined where no migration refuses this program. */
function refusalOf(
  refusing: readonly AppliedMigration[],
  version: number,
  newest: number,
): string | undefined {
  const [first] = refusing;
  if (first === undefined) return undefined;
  const oldest = refusing.map(({ oldest_program: program }) => program ?? Number.POSITIVE_INFINITY);
  const needed = Math.max(...oldest);
  const advice =
    needed === Number.POSITIVE_INFINITY
      ? 'the newer program'
      : `a program with schema version ${needed} or newer`;
  return (
    `The database has schema version ${version}, too new for this program, which has version ${newest}: ` +
    `run ${advice}, or restore a backup from before migration ${first.version}.`
  );
}

export const createHistory = `
  create table if not exists schema_migrations (
    version integer primary key, name text not null, applied_at timestamptz not null default now(),
    oldest_program integer)`;

export const selectApplied = 'select version, oldest_program from schema_migrations order by version';

function recordOf({ version, name, oldestProgram }: Migration): string {
  return (
    'insert into schema_migrations (version, name, oldest_program) ' +
    `values (${version}, '${name}', ${oldestProgram});`
  );
}

export function tablesOfMigrations(): string[] {
  const made = readMigrations().flatMap(({ sql }) => [...sql.matchAll(/^create table (\w+)/gm)]);
  return ['schema_migrations', ...made.map(([, name]) => String(name))];
}

/** The number in the first line of a migration; undefined where it says nothing. */
export function oldestProgramOf(sql: string): number | undefined {
  const [, number] = /^-- Runs with programs from (\d{4}) on\.\n/.exec(sql) ?? [];
  return number === undefined ? undefined : Number(number);
}

function readMigrations(): Migration[] {
  return readdirSync(folder)
    .filter((file) => /^\d{4}-[a-z0-9-]+\.sql$/.test(file))
    .sort()
    .map((file) => {
      const version = Number(file.slice(0, 4));
      const sql = readFileSync(new URL(file, folder), 'utf8');
      return { version, name: file.slice(5, -4), oldestProgram: oldestProgramOf(sql) ?? version, sql };
    });
}
