import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPglite } from '../../src/platform/store/pglite.ts';
import { makeTables } from './tables.ts';

const root = join(import.meta.dirname, '../..');
const migrations = join(root, 'src/platform/store/migrations');

/** Made once a machine, since it takes seconds; other migrations or packages make another. */
const template = join(tmpdir(), `handoff-test-pglite-${hashOfSchema()}-${process.getuid?.()}`);

/** Puts the files of an embedded database with empty tables at `target`, which must not exist. */
export async function copyEmptyDatabase(target: string): Promise<void> {
  if (!(await exists(template))) await makeTemplate();
  // Of so many small files, the asynchronous copy takes seven times the work.
  cpSync(template, target, { recursive: true });
}

async function makeTemplate(): Promise<void> {
  const dir = await mkdtemp(`${template}-`);
  const database = await openPglite(join(dir, 'database'));
  await makeTables(database);
  // Two thirds of the files belong to databases that nobody opens.
  await database.execute(`update pg_database set datistemplate = false where datname <> current_database()`);
  for (const name of ['template0', 'template1']) await database.execute(`drop database ${name}`);
  await database.close();
  // Another process may have been faster: either template will do.
  await rename(join(dir, 'database'), template).catch(() => {});
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
}

function hashOfSchema(): string {
  const hash = createHash('sha256').update(readFileSync(join(root, 'package-lock.json')));
  for (const file of readdirSync(migrations)) hash.update(readFileSync(join(migrations, file)));
  return hash.digest('hex').slice(0, 12);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
