import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { PGlite } from '@electric-sql/pglite';
import { Kysely, PGliteDialect } from 'kysely';
import type { AppliedMigration, Database } from './database.ts';
import { createHistory, selectApplied } from './migrate.ts';

/**
 * For a developer's machine. V8's optimising compiler does not compile the module: that would take 600 MB for a while
 * and 100 MB for good, and queries are faster without the pauses (the second and third flag follow from the first at
 * start-up only).
 */
const compilerFlags = ['--liftoff-only', '--no-wasm-tier-up', '--no-wasm-dynamic-tiering'];

/** Small buffers: the embedded database holds little, and WebAssembly memory is never given back. */
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=8MB', '-c', 'wal_buffers=256kB'];

/**
 * Opens the embedded PostgreSQL in a folder, which is made on first use. Meanwhile the heap of the whole process is
 * collected early, which saves 30 MB.
 */
export async function openPglite(dir: string): Promise<Database> {
  for (const flag of [...compilerFlags, '--optimize-for-size']) setFlagsFromString(flag);
  await mkdir(dir, { recursive: true });
  // Its files are made readable to everybody; the folder must not be.
  await chmod(dir, 0o700);
  if (!existsSync(join(dir, 'PG_VERSION'))) await initialise(dir);
  const pglite = await PGlite.create({ dataDir: dir, startParams });
  // Garbage of the start-up is collected by then; requests would take twice as long with it.
  setFlagsFromString('--no-optimize-for-size');
  const sql = new Kysely<unknown>({ dialect: new PGliteDialect({ pglite }) });
  return {
    kind: 'pglite',
    sql,
    bulk: sql,
    execute: async (text, values) => {
      if (values?.length) return pglite.query(text, values);
      const results = await pglite.exec(text).catch(async (error) => {
        // A block that failed inside its own transaction would poison the one connection for everybody.
        await pglite.exec('rollback');
        throw error;
      });
      return { rows: results.flatMap(({ rows }) => rows) };
    },
    migrate: async (statements) => {
      await pglite.exec(createHistory);
      const { rows } = await pglite.query<AppliedMigration>(selectApplied);
      const wanted = statements(rows);
      await pglite.transaction(async (transaction) => {
        for (const statement of wanted) await transaction.exec(statement);
      });
    },
    checkHealth: async () => void (await pglite.query('select 1')),
    close: () => pglite.close(),
  };
}

/** Making the files takes 500 MB, which only a process of its own gives back. */
async function initialise(dir: string): Promise<void> {
  const program = fileURLToPath(new URL('./initialise-pglite.ts', import.meta.url));
  await promisify(execFile)(process.execPath, [...compilerFlags, program, dir, ...startParams]);
}
