import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { Kysely, PGliteDialect } from 'kysely';
import type { Database, Tables } from './database.ts';
import { createHistory, selectVersion } from './migrate.ts';

/** Small buffers: the embedded database holds little, and WebAssembly memory is never given back. */
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=8MB', '-c', 'wal_buffers=256kB'];

/** Opens the embedded PostgreSQL in a folder, which is made on first use. */
export async function openPglite(dir: string): Promise<Database> {
  // Without the optimising compiler the module needs 80 MB less and is no slower at what we ask of it.
  setFlagsFromString('--liftoff-only');
  if (!existsSync(join(dir, 'PG_VERSION'))) await initialise(dir);
  const pglite = await PGlite.create({ dataDir: dir, startParams });
  return {
    kind: 'pglite',
    sql: new Kysely<Tables>({ dialect: new PGliteDialect({ pglite }) }),
    migrate: async (statements) => {
      await pglite.exec(createHistory);
      const { rows } = await pglite.query<{ version: number }>(selectVersion);
      const wanted = statements(rows[0]?.version ?? 0);
      await pglite.transaction(async (transaction) => {
        for (const statement of wanted) await transaction.exec(statement);
      });
    },
    checkHealth: async () => void (await pglite.query('select 1')),
    close: () => pglite.close(),
  };
}

/**
 * The first start makes the database files in a thread of its own: initdb takes 300 MB that this thread would keep.
 */
async function initialise(dir: string): Promise<void> {
  await mkdir(dirname(dir), { recursive: true });
  const code = `
    const { workerData } = require('node:worker_threads');
    import(workerData.pglite).then(async ({ PGlite }) => {
      const pglite = await PGlite.create({ dataDir: workerData.dir, startParams: workerData.startParams });
      await pglite.close();
    });`;
  const pglite = import.meta.resolve('@electric-sql/pglite');
  const worker = new Worker(code, { eval: true, workerData: { dir, pglite, startParams } });
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject);
    worker.once('exit', (exitCode) =>
      exitCode === 0 ? resolve() : reject(new Error(`The embedded database can't be made in ${dir}`)),
    );
  });
}
