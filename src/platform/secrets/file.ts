import { createHash } from 'node:crypto';
import fs, { closeSync, fstatSync, type Stats } from 'node:fs';
import { access, constants, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { monotonicMs } from '../base/chance.ts';
import { acquireFileLock, makeFolder, replaceFile, syncFolder } from '../base/files.ts';
import { watchFolder } from './folder-watch.ts';
import {
  checkSecretName,
  isSecretName,
  maxSecretBytes,
  type Secret,
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from './secrets-manager.ts';

const open = promisify(fs.open);
const read = promisify(fs.read);

/** How long a write waits for other writes, those of other processes too. */
const lockWaitMs = 10_000;

/**
 * Secrets as files below a folder: one file a secret, its name is its path, folders 0700 and files 0600. A file may
 * be written by hand: its content is the value as it is, a last newline included, and its permissions are left alone
 * until it is written again. Names with `~`, which no secret can have, are locks and drafts. Writes of all processes that
 * share the folder take turns by a lock of the kernel; reads take none, since a write replaces the whole file at once.
 */
export function createFileSecretsManager(options: { dir: string }): SecretsManager {
  const { dir } = options;
  const pathOf = (name: string) => {
    checkSecretName(name);
    return join(dir, name);
  };
  const exclusively = createWriteQueue(dir);
  const checkRoot = createRootCheck(dir);
  const stops = new Set<() => void>();
  return {
    kind: 'file',
    read: async (name) => {
      const found = await readSecret(pathOf(name));
      if (found === undefined) await checkRoot();
      return found;
    },
    write: async (name, value, expected) => {
      const path = pathOf(name);
      if (Buffer.byteLength(value) > maxSecretBytes)
        throw unavailable(path, `a secret can have at most ${maxSecretBytes} bytes`);
      return exclusively(path, async () => {
        await checkVersion(path, expected);
        await replaceFile(path, value);
        await checkRoot();
        return versionOf(Buffer.from(value));
      });
    },
    delete: async (name, expected) => {
      const path = pathOf(name);
      await exclusively(path, async () => {
        await checkVersion(path, expected);
        await rm(path);
        await syncFolder(dirname(path));
      });
    },
    list: async (folder) => {
      const path = pathOf(folder);
      await checkRoot();
      return listSecrets(path, folder);
    },
    watch: (folder, changed) => {
      const stop = watchFolder(pathOf(folder), changed);
      stops.add(stop);
      return () => {
        stops.delete(stop);
        stop();
      };
    },
    checkHealth: async () => {
      await checkRoot();
      await checkFolder(dir);
    },
    close: async () => {
      for (const stop of stops) stop();
    },
  };
}

/**
 * A folder that does not exist yet holds no secrets. One that existed and is gone (a lost mount) must not count as
 * empty, or every consumer would be revoked. Throws `SecretsUnavailable`.
 */
function createRootCheck(dir: string): () => Promise<void> {
  let wasThere = false;
  return async () => {
    const isThere = await stat(dir).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (!isThere && wasThere) throw unavailable(dir, 'the folder has vanished');
    wasThere ||= isThere;
  };
}

/** Writes of this manager wait for each other in memory, those of other managers and processes at the lock file. */
function createWriteQueue(dir: string) {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(path: string, work: () => Promise<T>): Promise<T> => {
    const giveUpAt = monotonicMs() + lockWaitMs;
    const turn = last.then(() => underLock(dir, path, giveUpAt, work));
    last = turn.catch(() => undefined);
    return turn;
  };
}

async function underLock<T>(dir: string, path: string, giveUpAt: number, work: () => Promise<T>): Promise<T> {
  try {
    await makeFolder(dir);
    const lock = await acquireFileLock(join(dir, '~writes'), { subject: dir }, giveUpAt - monotonicMs());
    try {
      return await work();
    } finally {
      await lock.release();
    }
  } catch (error) {
    if (error instanceof VersionConflict || error instanceof SecretsUnavailable) throw error;
    throw unavailable(path, describe(error), error);
  }
}

async function checkVersion(path: string, expected: string | null): Promise<void> {
  const found = (await readSecret(path))?.version ?? null;
  if (found !== expected) throw new VersionConflict(`${path} was changed by another writer`);
}

/**
 * Opening and reading use the thread pool; stat and close of the open file cost less than a hop to another thread. This
 * matters with many thousand secrets.
 */
async function readSecret(path: string): Promise<Secret | undefined> {
  try {
    // Without waiting: opening a pipe would else block a thread for ever.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    let content: Buffer;
    try {
      const found = fstatSync(file);
      if (!found.isFile()) return undefined;
      content = await readWhole(file, path, found.size);
    } finally {
      closeSync(file);
    }
    return { value: content.toString('utf8'), version: versionOf(content) };
  } catch (error) {
    if (isAbsent(error)) return undefined;
    if (error instanceof SecretsUnavailable) throw error;
    throw unavailable(path, describe(error), error);
  }
}

async function readWhole(file: number, path: string, size: number): Promise<Buffer> {
  if (size > maxSecretBytes) throw unavailable(path, `a secret can have at most ${maxSecretBytes} bytes`);
  const buffer = Buffer.allocUnsafe(size + 1);
  const { bytesRead } = await read(file, buffer, 0, buffer.length, 0);
  if (bytesRead <= size) return buffer.subarray(0, bytesRead);
  return readWhole(file, path, fstatSync(file).size);
}

function versionOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

async function listSecrets(path: string, folder: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for (const entry of await readdir(path, { withFileTypes: true })) {
      const name = `${folder}/${entry.name}`;
      if (!isSecretName(name)) continue;
      const kind = entry.isSymbolicLink() ? await followLink(join(path, entry.name)) : entry;
      if (kind?.isFile()) names.push(name);
      else if (kind?.isDirectory()) names.push(...(await listSecrets(join(path, entry.name), name)));
    }
  } catch (error) {
    if (!isAbsent(error)) throw unavailable(path, describe(error), error);
  }
  return names.sort();
}

/** Undefined where the link leads nowhere: one such link must not end the list, or the consumers after it would be revoked. */
async function followLink(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

async function checkFolder(dir: string): Promise<void> {
  try {
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    if (!isAbsent(error)) throw unavailable(dir, describe(error), error);
    const parent = dirname(dir);
    if (parent !== dir) return checkFolder(parent);
  }
}

function isAbsent(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** Errors of the file system name path and call, never the content. */
function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function unavailable(path: string, reason: string, cause?: unknown): SecretsUnavailable {
  return new SecretsUnavailable(`The file secrets manager failed at ${path}: ${reason}`, { cause });
}
