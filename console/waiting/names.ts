import { useEffect, useRef, useState } from 'preact/hooks';
import { recall } from '../shared/memory.ts';
import { read, useSession } from '../shared/session.ts';

/** Read at once, so that a long list costs few requests. */
const mostReads = 20;
/** A name that could not be read is tried again after so long. */
const retryMs = 60_000;

interface Named {
  name?: string | null;
  first_name?: string | null;
  last_name?: string | null;
}

/** The names of records with these paths, such as `/v1/quotes/…`, as far as they are known. */
export function useNames(paths: readonly string[]): (path: string) => string | undefined {
  const session = useSession();
  const names = recall(session.memory, 'names', () => new Map<string, string>());
  const [, setReads] = useState(0);
  /** When a name could not be read, by `performance.now()`. */
  const { current: failed } = useRef(new Map<string, number>());
  const isMissing = (path: string) =>
    !names.has(path) && performance.now() >= (failed.get(path) ?? Number.NEGATIVE_INFINITY) + retryMs;
  const missing = [...new Set(paths)].filter(isMissing).slice(0, mostReads);
  useEffect(() => {
    let isGone = false;
    const readName = async (path: string) => {
      const found = await read<Named>(session, path).catch(() => undefined);
      const name = found && nameOf(found);
      if (name) names.set(path, name);
      else failed.set(path, performance.now());
    };
    const readAll = async () => {
      await Promise.all(missing.map(readName));
      // One change of the page, not one for each name.
      if (!isGone) setReads((count) => count + 1);
    };
    if (missing.length > 0) void readAll();
    return () => {
      isGone = true;
    };
  }, [missing.join()]);
  return (path) => names.get(path);
}

function nameOf({ name, first_name, last_name }: Named): string {
  return name ?? [first_name, last_name].filter(Boolean).join(' ');
}
