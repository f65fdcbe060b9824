import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemFrom } from './api.ts';
import { type Session, useSession } from './session.ts';

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

/** A page of a list as the API answers it. */
export interface Page<T> {
  data: T[];
  next_cursor: string | null;
  has_more: boolean;
}

export interface Pages<T> extends Loaded<T[]> {
  hasMore: boolean;
  more(): Promise<void>;
}

/** A list, page after page. `path` has its filters in it. */
export function usePages<T>(path: string, everyMs?: number): Pages<T> {
  const [further, setFurther] = useState<{ path: string; pages: Page<T>[] }>({ path, pages: [] });
  const [problem, setProblem] = useState<Problem | undefined>();
  const session = useSession();
  const own = further.path === path ? further.pages : [];
  const fetchPage = async (cursor?: string): Promise<Page<T>> => {
    const address = cursor === undefined ? path : `${path}${path.includes('?') ? '&' : '?'}cursor=${cursor}`;
    return JSON.parse((await session.send(address)).text) as Page<T>;
  };
  const first = useLoad(path, () => fetchPage(), own.length === 0 ? everyMs : undefined);
  const last = own.at(-1) ?? first.data;
  return {
    ...first,
    problem: first.problem ?? problem,
    data: first.data && [first.data, ...own].flatMap(({ data }) => data),
    hasMore: last?.has_more ?? false,
    reload: async () => {
      setFurther({ path, pages: [] });
      setProblem(undefined);
      await first.reload();
    },
    more: async () => {
      if (!last?.next_cursor) return;
      try {
        const page = await fetchPage(last.next_cursor);
        setFurther((old) => ({ path, pages: [...(old.path === path ? old.pages : []), page] }));
        setProblem(undefined);
      } catch (error) {
        setProblem(problemFrom(error));
      }
    },
  };
}
