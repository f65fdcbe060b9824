import { type FSWatcher, readdirSync, type Stats, statSync, watch } from 'node:fs';
import { basename, dirname, join, relative, sep } from 'node:path';
import { clearInterval, clearTimeout, setInterval, setTimeout } from '../base/chance.ts';

/** Changes within this time are reported once: a writer touches a folder several times for one secret. */
const gatherMs = 100;
const pollMs = 1000;

/**
 * Calls back soon after something in the folder or below may have changed, at most every 100 ms. The folder may
 * appear later: until then the nearest folder above it is watched. Where the file system has no notifications or the
 * system's watches are used up, modification times of the folders are compared each second instead. It keeps no
 * process alive. `watchOne` stands for `fs.watch`. Returns the way to stop.
 */
export function watchFolder(folder: string, changed: () => void, watchOne: typeof watch = watch): () => void {
  const watcher = new FolderWatch(folder, changed, watchOne);
  return () => watcher.stop();
}

class FolderWatch {
  readonly #folder: string;
  readonly #changed: () => void;
  readonly #watchOne: typeof watch;
  readonly #watched = new Map<
    string,
    {
      watcher: FSWatcher;
      /** A folder deleted and made again has the same path, but its old watcher is deaf. */
      inode: number;
    }
  >();
  #gathering: NodeJS.Timeout | undefined;
  #polling: NodeJS.Timeout | undefined;
  readonly #replacements: NodeJS.Timeout;
  #stopped = false;

  constructor(folder: string, changed: () => void, watchOne: typeof watch) {
    this.#folder = folder;
    this.#changed = changed;
    this.#watchOne = watchOne;
    this.#rescan();
    this.#replacements = setInterval(() => this.#noticeReplacement(), pollMs).unref();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#gathering);
    clearInterval(this.#polling);
    clearInterval(this.#replacements);
    for (const path of [...this.#watched.keys()]) this.#unwatch(path);
  }

  #rescan(): boolean {
    const wanted = new Set<string>();
    let different = false;
    const watchAll = (path: string) => {
      const found = statFolder(path);
      if (found === undefined) return false;
      wanted.add(path);
      // First watch, then look for folders inside: one made in between is seen by either.
      if (this.#watchFolderItself(path, found.ino)) different = true;
      if (!path.startsWith(this.#folder)) return true;
      for (const name of foldersIn(path)) watchAll(join(path, name));
      return true;
    };
    let nearest = this.#folder;
    while (!watchAll(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
    for (const path of [...this.#watched.keys()]) {
      if (wanted.has(path)) continue;
      this.#unwatch(path);
      different = true;
    }
    return different;
  }

  #watchFolderItself(path: string, inode: number): boolean {
    if (this.#polling !== undefined) return false;
    if (this.#watched.get(path)?.inode === inode) return false;
    this.#unwatch(path);
    try {
      const watcher = this.#watchOne(path, { persistent: false }, (_event, name) =>
        this.#onEvent(path, name),
      );
      watcher.on('error', () => this.#poll());
      this.#watched.set(path, { watcher, inode });
    } catch {
      this.#poll();
    }
    return true;
  }

  /** A mount, or another folder under the same name: the folder that is watched reports nothing of it. */
  #noticeReplacement(): void {
    if (this.#polling !== undefined) return;
    if (statFolder(this.#folder)?.ino !== this.#watched.get(this.#folder)?.inode) this.#gather();
  }

  #unwatch(path: string): void {
    this.#watched.get(path)?.watcher.close();
    this.#watched.delete(path);
  }

  #onEvent(path: string, name: string | null): void {
    // Locks and drafts: the file that matters is reported by itself.
    if (name?.includes('~') === true) return;
    // Above the folder, only what leads to it matters: a busy folder for temporary files may stand there.
    const [step] = relative(path, this.#folder).split(sep);
    const isAbove = step !== '' && step !== '..';
    if (isAbove && name !== null && name !== step && name !== basename(path)) return;
    this.#gather();
  }

  #gather(): void {
    if (this.#stopped || this.#gathering !== undefined) return;
    this.#gathering = setTimeout(() => {
      this.#gathering = undefined;
      // A folder that has just been watched may have changed before it was: report once more, later.
      if (this.#rescan()) this.#gather();
      this.#changed();
    }, gatherMs);
    this.#gathering.unref();
  }

  #poll(): void {
    if (this.#stopped || this.#polling !== undefined) return;
    for (const path of [...this.#watched.keys()]) this.#unwatch(path);
    let before = signature(this.#folder);
    this.#polling = setInterval(() => {
      const now = signature(this.#folder);
      if (now === before) return;
      before = now;
      this.#changed();
    }, pollMs);
    this.#polling.unref();
  }
}

/** Modification times of the folder and the folders in it; they change when a file is made, replaced or deleted. */
function signature(path: string): string {
  const found = statFolder(path);
  if (found === undefined) return '';
  const inside = foldersIn(path).map((name) => signature(join(path, name)));
  return `${path} ${found.ino} ${found.mtimeMs}\n${inside.join('')}`;
}

function statFolder(path: string): Stats | undefined {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found?.isDirectory() === true ? found : undefined;
  } catch {
    return undefined;
  }
}

function foldersIn(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
      .map((entry) => entry.name);
  } catch {
    return [];
  }
}
