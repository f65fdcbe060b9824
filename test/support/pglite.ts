import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, truncateSync } from 'node:fs';
import { mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPglite } from '../../src/platform/store/pglite.ts';
import { makeTables } from './tables.ts';

const root = join(import.meta.dirname, '../..');
const migrations = join(root, 'src/platform/store/migrations');

/** Size that PostgreSQL gives each file of its write-ahead log. */
const segmentBytes = 16 * 2 ** 20;
/** Made once a machine, since it takes seconds; other migrations or packages make another. */
const template = join(tmpdir(), `handoff-test-pglite-${hashOfSchema()}-${process.getuid?.()}`);

/** Puts the files of an embedded database with empty tables at `target`, which must not exist. */
export async function copyEmptyDatabase(target: string): Promise<void> {
  if (!(await exists(template))) await makeTemplate();
  // Of so many small files, the asynchronous copy takes seven times the work.
  cpSync(template, target, { recursive: true });
  for (const segment of findSegments(target)) truncateSync(segment, segmentBytes);
}

async function makeTemplate(): Promise<void> {
  const dir = await mkdtemp(`${template}-`);
  const database = await openPglite(join(dir, 'database'));
  await makeTables(database);
  // Two thirds of the files belong to databases that nobody opens.
  await database.execute(`update pg_database set datistemplate = false where datname <> current_database()`);
  for (const name of ['template0', 'template1']) await database.execute(`drop database ${name}`);
  await database.close();
  // Of 16 MB, all but a little is zeros: what is cut off here is a hole in the copy, which costs nothing.
  for (const segment of findSegments(join(dir, 'database')))
    truncateSync(segment, readFileSync(segment).findLastIndex((byte) => byte !== 0) + 1);
  // Another process may have been faster: either template will do.
  await rename(join(dir, 'database'), template).catch(() => {});
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
}

/** Paths of the files of the write-ahead log. */
function findSegments(database: string): string[] {
  const folder = join(database, 'pg_wal');
  return readdirSync(folder)
    .filter((name) => /^[\dA-F]{24}$/.test(name))
    .map((name) => join(folder, name));
}

function hashOfSchema(): string {
  const hash = createHash('sha256');
  for (const file of [join(root, 'package-lock.json'), import.meta.filename]) hash.update(readFileSync(file));
  for (const file of readdirSync(migrations)) hash.update(readFileSync(join(migrations, file)));
  return hash.digest('hex').slice(0, 12);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
