import type { Page } from '@handoff-gateway/client';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemFrom } from './api.ts';
import { read, type Session, useSession, withQuery } from './session.ts';

export interface Loaded<T> {
  data: T | undefined;
  problem: Problem | undefined;
  isLoading: boolean;
  /** Milliseconds since 1970 of the last answer. */
  loadedAt: number | undefined;
  reload(): Promise<void>;
}

/**
 * Loads when `name` changes, and with `everyMs` again and again while the page can be seen. What was loaded stays while
 * the next is on its way, and when that fails.
 */
export function useLoad<T>(
  name: string,
  load: (session: Session) => Promise<T>,
  everyMs?: number,
): Loaded<T> {
  const session = useSession();
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'> & { name: string }>({ ...empty, name });
  const latest = useRef(0);
  const current = useRef({ load, name });
  current.current = { load, name };
  const reload = useCallback(async () => {
    const turn = ++latest.current;
    const { load: run, name: asked } = current.current;
    setState((old) => ({ ...(old.name === asked ? old : empty), name: asked, isLoading: true }));
    const found = await run(session).then(
      (data) => ({ data, problem: undefined, loadedAt: Date.now() }),
      (error: unknown) => ({ problem: problemFrom(error) }),
    );
    // A later one has been asked for meanwhile.
    if (turn === latest.current) setState((old) => ({ ...old, ...found, isLoading: false }));
  }, [session]);
  useEffect(() => {
    void reload();
    return () => {
      latest.current += 1;
    };
  }, [name, reload]);
  useRepeat(reload, everyMs);
  return { ...(state.name === name ? state : { ...empty, isLoading: true }), reload };
}

const empty = { data: undefined, problem: undefined, isLoading: false, loadedAt: undefined };

/** Nothing is asked for while nobody looks. */
function useRepeat(run: () => Promise<void>, everyMs: number | undefined): void {
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) void run();
    }, everyMs);
    return () => clearInterval(timer);
  }, [run, everyMs]);
}

export interface Pages<T> extends Loaded<T[]> {
  hasMore: boolean;
  more(): Promise<void>;
}

/** Reads a page of a list: the first one, or the one after the cursor. */
export type ReadPage<T> = (session: Session, cursor: string | undefined) => Promise<Page<T>>;

/** Pages of a list that the client does not have. */
export function pagesAt<T>(path: string): ReadPage<T> {
  return (session, cursor) => read<Page<T>>(session, withQuery(path, { cursor }));
}

/** A list, page after page. It begins again when `name` changes, which has its filters in it. */
export function usePages<T>(name: string, readPage: ReadPage<T>, everyMs?: number): Pages<T> {
  const [further, setFurther] = useState<{ name: string; pages: Page<T>[] }>({ name, pages: [] });
  const [problem, setProblem] = useState<Problem | undefined>();
  const session = useSession();
  /** The cursor of the page that is on its way. */
  const onItsWay = useRef<string | undefined>(undefined);
  const own = further.name === name ? further.pages : [];
  const first = useLoad(name, (asked) => readPage(asked, undefined), own.length === 0 ? everyMs : undefined);
  const last = own.at(-1) ?? first.data;
  return {
    ...first,
    problem: first.problem ?? problem,
    data: first.data && [first.data, ...own].flatMap(({ data }) => data),
    hasMore: last?.has_more ?? false,
    reload: async () => {
      setFurther({ name, pages: [] });
      setProblem(undefined);
      await first.reload();
    },
    more: async () => {
      const cursor = last?.next_cursor;
      if (!cursor || cursor === onItsWay.current) return;
      onItsWay.current = cursor;
      try {
        const page = await readPage(session, cursor);
        setFurther((old) => ({ name, pages: [...(old.name === name ? old.pages : []), page] }));
        setProblem(undefined);
      } catch (error) {
        setProblem(problemFrom(error));
      } finally {
        onItsWay.current = undefined;
      }
    },
  };
}
