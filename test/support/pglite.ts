import { cp, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { version } from '../../src/platform/base/version.ts';
import { openPglite } from '../../src/platform/store/pglite.ts';

/** Made once a machine, since it takes seconds; another version of PGlite makes another. */
const template = join(tmpdir(), `handoff-test-pglite-${version}-${process.getuid?.()}`);

/** Puts the files of an empty embedded database at `target`, which must not exist. */
export async function copyEmptyDatabase(target: string): Promise<void> {
  if (!(await exists(template))) await makeTemplate();
  await cp(template, target, { recursive: true });
}

async function makeTemplate(): Promise<void> {
  const dir = await mkdtemp(`${template}-`);
  const database = await openPglite(join(dir, 'database'));
  await database.close();
  // Another process may have been faster: either template will do.
  await rename(join(dir, 'database'), template).catch(() => {});
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
