import { useRef } from 'preact/hooks';
import { useReads } from '../shared/load.ts';
import { recall } from '../shared/memory.ts';
import { read, type Session, useSession } from '../shared/session.ts';

function namesIn({ memory }: Pick<Session, 'memory'>): Map<string, string> {
  return recall(memory, 'names', () => new Map<string, string>());
}

/** Keeps the name of a record that is still to come, by its path: once it's done, its hand-off has none, and an outage hides it. */
export function noteName(session: Session, path: string, name: string): void {
  namesIn(session).set(path, name);
}

/** A name that could not be read is tried again after so long. */
const retryMs = 60_000;

/** The names of quotes and bookings with these paths, such as `/v1/quotes/…`, as far as they are known. */
export function useNames(paths: readonly string[]): (path: string) => string | undefined {
  const session = useSession();
  const names = namesIn(session);
  /** When a name could not be read, by `performance.now()`. */
  const { current: failed } = useRef(new Map<string, number>());
  const isMissing = (path: string) =>
    !names.has(path) && performance.now() >= (failed.get(path) ?? Number.NEGATIVE_INFINITY) + retryMs;
  const readName = async (path: string) => {
    const found = await read<{ name?: string | null }>(session, path).catch(() => undefined);
    if (found?.name) names.set(path, found.name);
    else failed.set(path, performance.now());
  };
  useReads(new Map(paths.filter(isMissing).map((path) => [path, () => readName(path)])));
  return (path) => names.get(path);
}
