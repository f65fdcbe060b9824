import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/**
 * Replaces the file at once and for good: readers see the old content or the new, and after a power failure too.
 * Mode 0600; missing folders are made with mode 0700. The draft `<path>~new` is left behind by a crash only, and
 * the next write replaces it; two writers at once must be kept apart by a lock.
 */
export async function replaceFile(path: string, content: string | Buffer): Promise<void> {
  await makeFolder(dirname(path));
  const draft = `${path}~new`;
  await rm(draft, { force: true });
  try {
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Makes the folder and its parents with mode 0700 and makes their entries outlive a power failure. */
export async function makeFolder(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  let made = resolve(path);
  while (made.length >= first.length && dirname(made) !== made) {
    made = dirname(made);
    await syncFolder(made);
  }
}

/** Without this, a rename or an unlink may be undone by a power failure. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
