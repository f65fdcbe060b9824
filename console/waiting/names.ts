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

/** The names of quotes and bookings with these paths, such as `/v1/quotes/…`, as far as they are known. */
export function useNames(paths: readonly string[]): (path: string) => string | undefined {
  const session = useSession();
  const names = namesIn(session);
  const readName = async (path: string) => {
    const { name } = await read<{ name?: string | null }>(session, path);
    if (name) names.set(path, name);
  };
  const missing = paths.filter((path) => !names.has(path));
  useReads(new Map(missing.map((path) => [path, () => readName(path)])));
  return (path) => names.get(path);
}
