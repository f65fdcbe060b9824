import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { monotonicMs, randomFraction, randomUUID, sleep, wallMs } from './chance.ts';
import { makeFolder } from './durable-file.ts';

const holderSchema = Type.Object({
  pid: Type.Integer({ minimum: 1 }),
  processStart: Type.Union([Type.String(), Type.Null()]),
  purpose: Type.String(),
  since: Type.String(),
  nonce: Type.String(),
});

/** The content of a lock file: the process that holds the lock. */
type LockHolder = Type.Static<typeof holderSchema>;

const holders = Compile(holderSchema);

interface LockDescription {
  /** What the holder does, e.g. `handoff serve`; shown to others. */
  purpose: string;
  /** What the lock protects, for messages; the lock file's own path if left out. */
  subject?: string;
}

interface FileLock {
  /** Gives the lock back; never removes the lock of another holder. */
  release(): Promise<void>;
}

/** Another process has the lock; the message says which. */
export class FileLockHeld extends Error {
  override readonly name = 'FileLockHeld';
  readonly holder: LockHolder;
  /** Who has it, without what others add to the message. */
  readonly fact: string;

  constructor(subject: string, holder: LockHolder) {
    super(`${subject} is in use by process ${holder.pid} (${holder.purpose}, since ${holder.since})`);
    this.holder = holder;
    this.fact = this.message;
  }
}

const pollMs = 10;

/**
 * Locks the data directory for this process and its workers. Throws `FileLockHeld`, which names the holder. `purpose`:
 * what this process does, shown to others.
 */
export async function lockDataDir(dataDir: string, purpose: string): Promise<FileLock> {
  await makeFolder(dataDir);
  return acquireFileLock(join(dataDir, 'in-use'), { purpose, subject: dataDir });
}

/**
 * Takes the lock file. Where a living process has it, waits up to `waitMs` milliseconds for its release, and then throws
 * `FileLockHeld`. The lock of a process that ended without releasing it is replaced. It works between the processes of one
 * machine that see each other's process ids: containers that share a folder do not, and must not share a lock.
 */
export async function acquireFileLock(
  path: string,
  describe: LockDescription,
  waitMs = 0,
): Promise<FileLock> {
  const start = (await processStart(process.pid)) ?? null;
  const since = new Date(wallMs()).toISOString();
  const mine = {
    pid: process.pid,
    processStart: start,
    purpose: describe.purpose,
    since,
    nonce: randomUUID(),
  };
  const giveUpAt = monotonicMs() + waitMs;
  for (;;) {
    const found = await readLock(path);
    if (found === undefined) {
      if (await claim(path, mine)) return { release: () => release(path, mine.nonce) };
    } else if (found === null || (await isStale(found))) {
      await removeStale(path);
    } else {
      if (monotonicMs() >= giveUpAt) throw new FileLockHeld(describe.subject ?? path, found);
      await sleep(pollMs * (0.5 + randomFraction()));
    }
  }
}

/**
 * A link is as exclusive as O_EXCL and shows the file with its content or not at all: a process killed between
 * creating and writing would leave an empty lock without a holder.
 */
async function claim(path: string, holder: LockHolder): Promise<boolean> {
  const draft = `${path}.${holder.nonce}`;
  await writeFile(draft, `${JSON.stringify(holder)}\n`, { flag: 'wx', mode: 0o600 });
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * The holder; undefined where there is no lock file; null where it holds nothing that we wrote, which counts as
 * stale: a link shows whole files only, so it takes a power failure to leave half of one.
 */
async function readLock(path: string): Promise<LockHolder | null | undefined> {
  try {
    const content: unknown = JSON.parse(await readFile(path, 'utf8'));
    return holders.Check(content) ? content : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function isStale(holder: LockHolder): Promise<boolean> {
  const start = await processStart(holder.pid);
  if (start === undefined) return true;
  return start !== null && holder.processStart !== null && start !== holder.processStart;
}

/**
 * Removes the lock of a dead process. Of two processes that find it stale at once, the slower would remove the lock
 * that the faster has just taken; so only the holder of a second lock may remove, and it looks again first. Where
 * a process died while removing, that second lock is stale and goes the same way.
 */
async function removeStale(path: string): Promise<void> {
  const guard = await acquireFileLock(
    `${path}.break`,
    { purpose: 'removing the lock of a dead process' },
    10_000,
  );
  try {
    const found = await readLock(path);
    if (found === null || (found && (await isStale(found)))) await rm(path, { force: true });
  } finally {
    await guard.release();
  }
}

async function release(path: string, nonce: string): Promise<void> {
  const found = await readLock(path);
  if (found?.nonce === nonce) await rm(path, { force: true });
}

/**
 * When a process started, as Linux counts it: the boot and the clock ticks since then (proc(5), fields 3 and 22 of
 * /proc/<pid>/stat). With the process id it identifies one process: ids are reused, in a container nearly always. Null
 * where the system does not have it, undefined where the process has ended.
 */
async function processStart(pid: number): Promise<string | null | undefined> {
  if (!exists(pid)) return undefined;
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'latin1');
    // The name of the program is in parentheses and may hold anything, parentheses too.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A killed process keeps its id until its parent waits for it, but does nothing any more.
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return `${await bootId()}/${fields[19] ?? ''}`;
  } catch {
    return exists(pid) ? null : undefined;
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function bootId(): Promise<string> {
  try {
    return (await readFile('/proc/sys/kernel/random/boot_id', 'latin1')).trim();
  } catch {
    return '';
  }
}
