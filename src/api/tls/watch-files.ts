import { type FSWatcher, watch } from 'node:fs';
import { dirname } from 'node:path';

/** Changes within this time are reported once: certificate and key are written one after the other. */
const gatherMs = 200;
/** For file systems without notifications, and for folders that were replaced under their watcher. */
const pollMs = 10_000;

/**
 * Calls back soon after one of the files may have changed, and every 10 s anyway. The folders are watched, not the
 * files: a file is mostly replaced by renaming, and Kubernetes renames a link beside it. It keeps no process alive.
 * Returns the way to stop.
 */
export function watchFiles(paths: readonly string[], changed: () => void): () => void {
  let gathering: NodeJS.Timeout | undefined;
  const gather = () => {
    gathering ??= setTimeout(() => {
      gathering = undefined;
      changed();
    }, gatherMs).unref();
  };
  const watchers = [...new Set(paths.map((path) => dirname(path)))].flatMap((folder) =>
    watchOne(folder, gather),
  );
  const polling = setInterval(changed, pollMs).unref();
  return () => {
    clearTimeout(gathering);
    clearInterval(polling);
    for (const watcher of watchers) watcher.close();
  };
}

/** None where the system's watches are used up: then the poll finds out. */
function watchOne(folder: string, changed: () => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { persistent: false }, changed);
    watcher.on('error', () => watcher.close());
    return [watcher];
  } catch {
    return [];
  }
}
