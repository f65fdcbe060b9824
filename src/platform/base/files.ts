import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { monotonicMs, randomFraction, sleep, wallMs } from './chance.ts';

const holderSchema = Type.Object({
  pid: Type.Integer({ minimum: 1 }),
  purpose: Type.String(),
  since: Type.String(),
});

type LockHolder = Type.Static<typeof holderSchema>;

const holders = Compile(holderSchema);

interface FileLock {
  release(): Promise<void>;
}

/** Another process has the lock; the message says which, as far as that is known. */
export class FileLockHeld extends Error {
  override readonly name = 'FileLockHeld';
  readonly fact: string;

  constructor(subject: string, holder: LockHolder | undefined) {
    const { pid, purpose, since } = holder ?? {};
    super(
      `${subject} is in use by ${holder ? `process ${pid} (${purpose}, since ${since})` : 'another process'}`,
    );
    this.fact = this.message;
  }
}

const pollMs = 10;
/** The extended code is left off: https://sqlite.org/rescode.html. */
const sqliteBusy = 5;

/**
 * Locks the data directory for this process and its workers. Throws `FileLockHeld`, which names the holder. `purpose`:
 * what this process does, shown to others.
 */
export async function lockDataDir(dataDir: string, purpose: string): Promise<FileLock> {
  await makeFolder(dataDir);
  return acquireFileLock(join(dataDir, 'in-use'), { purpose, subject: dataDir });
}

/**
 * Takes the lock on the file `<path>.lock`, which stays there, empty. Where another holder has it, waits up to `waitMs`
 * milliseconds, and then throws `FileLockHeld`. The kernel keeps the lock, for all processes that share the folder, those in
 * other containers too: one that is stopped keeps it, one that has ended has none. `<path>` names the holder.
 */
export async function acquireFileLock(
  path: string,
  {
    subject,
    purpose,
  }: {
    subject: string;
    /** The holder's work, e.g. `handoff serve`; left out: others learn nothing of the holder, and taking the lock costs less. */
    purpose?: string;
  },
  waitMs = 0,
): Promise<FileLock> {
  const giveUpAt = monotonicMs() + waitMs;
  let lock = tryLock(`${path}.lock`);
  while (lock === undefined) {
    if (monotonicMs() >= giveUpAt) throw new FileLockHeld(subject, await readHolder(path));
    await sleep(pollMs * (0.5 + randomFraction()));
    lock = tryLock(`${path}.lock`);
  }
  const held = lock;
  if (purpose === undefined) return { release: async () => held.close() };
  const holder: LockHolder = { pid: process.pid, purpose, since: new Date(wallMs()).toISOString() };
  try {
    await writeFile(path, `${JSON.stringify(holder)}\n`, { mode: 0o600 });
  } catch (error) {
    held.close();
    throw error;
  }
  return { release: () => rm(path, { force: true }).finally(() => held.close()) };
}

/**
 * Node has no locks of the kernel, but SQLite, which it has, takes one for a transaction: `fcntl`, freed by the kernel. Nothing
 * else in this process may open the file: to close it would free the lock.
 */
function tryLock(file: string): DatabaseSync | undefined {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    // Nothing is written: no journal is needed beside it.
    database.exec('pragma journal_mode = memory; begin immediate');
    return database;
  } catch (error) {
    database.close();
    if (((error as { errcode?: number }).errcode ?? 0) % 256 === sqliteBusy) return undefined;
    throw error;
  }
}

/** Undefined where the file names nobody: it is for messages only. */
async function readHolder(path: string): Promise<LockHolder | undefined> {
  try {
    const content: unknown = JSON.parse(await readFile(path, 'utf8'));
    return holders.Check(content) ? content : undefined;
  } catch {
    return undefined;
  }
}

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
