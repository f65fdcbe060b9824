import type { Page } from '@handoff-gateway/client';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemFrom } from './api.ts';
import { isOutage } from './outage.ts';
import { read, type Session, useSession, withQuery } from './session.ts';

export interface Loaded<T> {
  data: T | undefined;
  problem: Problem | undefined;
  isLoading: boolean;
  /** Milliseconds since 1970 of the last answer. */
  loadedAt: number | undefined;
  reload(): Promise<void>;
}

/** A list may be of any number of things: no more are read at once. */
const mostReads = 20;

/**
 * Reads what a page lacks, by name, a few at once. Each is asked for once; where an outage kept it from being read, again when
 * that ends.
 */
export function useReads(missing: ReadonlyMap<string, () => Promise<void>>): void {
  const { outage } = useSession();
  const [, setReads] = useState(0);
  /** Why each could not be read; undefined while it is on its way, and afterwards. */
  const { current: asked } = useRef(new Map<string, Problem | undefined>());
  const latest = useRef(missing);
  latest.current = missing;
  const failing = () =>
    [...latest.current.keys()].filter((name) => {
      const problem = asked.get(name);
      return problem !== undefined && isOutage(problem);
    });
  const readOne = async (name: string) => {
    const readIt = latest.current.get(name);
    // The page has no need of it any more.
    if (readIt === undefined) asked.delete(name);
    await readIt?.().catch((error: unknown) => asked.set(name, problemFrom(error)));
  };
  const readAll = async (names: readonly string[]) => {
    for (const name of names) asked.set(name, undefined);
    for (let first = 0; first < names.length; first += mostReads) {
      await Promise.all(names.slice(first, first + mostReads).map(readOne));
      setReads((count) => count + 1);
    }
    if (failing().length > 0) outage.report();
  };
  const next = [...missing.keys()].filter((name) => !asked.has(name));
  useEffect(() => void readAll(next), [next.join()]);
  useEffect(
    () => outage.add({ isFailing: () => failing().length > 0, reload: () => readAll(failing()) }),
    [outage],
  );
}

/** What was loaded at an earlier visit. */
type Known<T> = Pick<Loaded<T>, 'data' | 'loadedAt'>;

/**
 * Loads when `name` changes, and with `everyMs` again and again while the page can be seen. What was loaded stays while
 * the next is on its way, and when that fails. What is `known` is not loaded at first.
 */
export function useLoad<T>(
  name: string,
  load: (session: Session) => Promise<T>,
  everyMs?: number,
  known?: Known<T>,
): Loaded<T> {
  const session = useSession();
  const { outage } = session;
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'> & { name: string }>({
    ...empty,
    ...known,
    name,
  });
  const latest = useRef(0);
  const isOnItsWay = useRef(false);
  const pause = useRef({ failures: 0, until: 0 });
  const current = useRef({ load, name });
  current.current = { load, name };
  const reload = useCallback(async () => {
    const request = ++latest.current;
    isOnItsWay.current = true;
    const { load: run, name: asked } = current.current;
    setState((old) => ({ ...(old.name === asked ? old : empty), name: asked, isLoading: true }));
    const found = await run(session).then(
      (data) => ({ data, problem: undefined, loadedAt: Date.now() }),
      (error: unknown) => ({ problem: problemFrom(error) }),
    );
    // A later one has been asked for meanwhile.
    if (request !== latest.current) return;
    isOnItsWay.current = false;
    pause.current = pauseAfter(found.problem, pause.current.failures);
    failing.current = found.problem !== undefined && isOutage(found.problem);
    setState((old) => ({ ...old, ...found, isLoading: false }));
    if (failing.current) outage.report();
  }, [session]);
  const failing = useRef(false);
  failing.current = state.name === name && state.problem !== undefined && isOutage(state.problem);
  useEffect(() => outage.add({ isFailing: () => failing.current, reload }), [outage, reload]);
  const isKnown = useRef(known !== undefined);
  useEffect(() => {
    if (!isKnown.current) void reload();
    isKnown.current = false;
    return () => {
      latest.current += 1;
    };
  }, [name, reload]);
  // Where answers take longer than that, each is waited for: else none would ever be shown.
  const repeat = useCallback(() => {
    if (!isOnItsWay.current && Date.now() >= pause.current.until) void reload();
  }, [reload]);
  useRepeat(repeat, everyMs);
  return { ...(state.name === name ? state : { ...empty, isLoading: true }), reload };
}

const empty = { data: undefined, problem: undefined, isLoading: false, loadedAt: undefined };

const longestPauseMs = 60_000;

/** What fails is asked for less and less often by itself, and not before the service wants it. */
function pauseAfter(problem: Problem | undefined, before: number): { failures: number; until: number } {
  if (problem === undefined) return { failures: 0, until: 0 };
  const ms = Math.max(Math.min(2500 * 2 ** before, longestPauseMs), 1000 * (problem.retry_after ?? 0));
  return { failures: before + 1, until: Date.now() + ms };
}

/** Nothing is asked for while nobody looks. */
function useRepeat(run: () => void, everyMs: number | undefined): void {
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const look = () => {
      if (!document.hidden) run();
    };
    const timer = setInterval(look, everyMs);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [run, everyMs]);
}

/** The pages of a list as they were left. */
export interface KeptPages<T> {
  pages: Page<T>[];
  loadedAt: number | undefined;
}

export interface Pages<T> extends Loaded<T[]> {
  kept: KeptPages<T> | undefined;
  hasMore: boolean;
  more(): Promise<void>;
}

/** Reads a page of a list: the first one, or the one after the cursor. */
export type ReadPage<T> = (session: Session, cursor: string | undefined) => Promise<Page<T>>;

/** Pages of a list that the client does not have. */
export function pagesAt<T>(path: string): ReadPage<T> {
  return (session, cursor) => read<Page<T>>(session, withQuery(path, { cursor }));
}

/**
 * A list, page after page. It begins again when `name` changes, which has its filters in it. `wanted`: how many pages are read at
 * first, and when it is read again.
 */
export function usePages<T>(
  name: string,
  readPage: ReadPage<T>,
  everyMs?: number,
  known?: KeptPages<T>,
  wanted: () => number = () => 1,
): Pages<T> {
  /** The pages from the first one on, once somebody has asked for more than that. */
  const [longer, setLonger] = useState({ name, pages: known?.pages ?? [] });
  const isLonger = longer.name === name && longer.pages.length > 1;
  const first = useLoad(
    name,
    (asked) => readPages(asked, readPage, wanted()),
    isLonger ? undefined : everyMs,
    known && { data: known.pages, loadedAt: known.loadedAt },
  );
  // A first page that was read again is not shown above pages that may not follow it.
  const pages = isLonger ? longer.pages : (first.data ?? []);
  const begin = () => setLonger({ name, pages: [] });
  const next = useNextPage({ name, pages }, readPage, setLonger);
  return {
    ...first,
    ...listOf(pages, first.loadedAt),
    problem: first.problem ?? next.problem,
    reload: async () => {
      begin();
      next.forget();
      await first.reload();
      // Of what was asked for meanwhile, too.
      begin();
    },
    more: next.take,
  };
}

async function readPages<T>(session: Session, readPage: ReadPage<T>, count: number): Promise<Page<T>[]> {
  const pages = [await readPage(session, undefined)];
  for (let next = pages[0]?.next_cursor; next && pages.length < count; next = pages.at(-1)?.next_cursor)
    pages.push(await readPage(session, next));
  return pages;
}

/** What is shown of these pages; nothing before the first is there. */
function listOf<T>(pages: Page<T>[], loadedAt: number | undefined) {
  const last = pages.at(-1);
  if (last === undefined) return { kept: undefined, data: undefined, hasMore: false };
  return { kept: { pages, loadedAt }, data: pages.flatMap(({ data }) => data), hasMore: last.has_more };
}

interface Shown<T> {
  name: string;
  pages: Page<T>[];
}

/** Reads the page after those that are shown, once, however often it is asked for. */
function useNextPage<T>(shown: Shown<T>, readPage: ReadPage<T>, show: (longer: Shown<T>) => void) {
  const session = useSession();
  const [failed, setFailed] = useState<{ name: string; problem: Problem } | undefined>();
  /** The cursor of the page that is on its way. */
  const onItsWay = useRef<string | undefined>(undefined);
  const current = useRef(shown);
  current.current = shown;
  const { name } = shown;
  const take = async (): Promise<void> => {
    const last = current.current.pages.at(-1);
    const cursor = last?.next_cursor;
    if (!cursor || cursor === onItsWay.current) return;
    onItsWay.current = cursor;
    const fail = (error: unknown) => setFailed({ name, problem: problemFrom(error) });
    const page = await readPage(session, cursor).catch(fail);
    onItsWay.current = undefined;
    const { current: now } = current;
    if (!page || now.name !== name) return;
    setFailed(undefined);
    // What it follows may have been read again meanwhile; then another one follows.
    if (now.pages.at(-1) !== last) await take();
    else show({ name, pages: [...now.pages, page] });
  };
  return {
    take,
    problem: failed?.name === name ? failed.problem : undefined,
    forget: () => setFailed(undefined),
  };
}
