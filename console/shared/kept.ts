import { makeUuid } from '@handoff-gateway/client';
import { useEffect, useRef } from 'preact/hooks';
import { type KeptPages, type Pages, type ReadPage, usePages } from './load.ts';
import { recall } from './memory.ts';
import { notePages, pagesInAddress } from './router.ts';
import { useSession } from './session.ts';

interface Kept<T> {
  value: T | undefined;
  scroll: number;
}

const mostKept = 20;

/**
 * What a list showed when it was left by a link stays with its entry in the browser's history: Back finds the same pages
 * at the same height, without asking again. A link to the list, and a reload, read it again.
 */
function useKept<T>(): { found: T | undefined; keep(value: T | undefined): void } {
  const { memory } = useSession();
  /** By entry of the browser's history. */
  const all = recall(memory, 'lists', () => new Map<string, Kept<unknown>>());
  const key = useRef<string | undefined>(undefined);
  key.current ??= keyOfEntry();
  const entry = key.current;
  const before = useRef(all.get(entry) as Kept<T> | undefined);
  const latest = useRef<T | undefined>(undefined);
  useEffect(() => {
    const { current: found } = before;
    // After the page has been laid out, and the keyboard put at its beginning.
    if (found?.value !== undefined) requestAnimationFrame(() => scrollTo(0, found.scroll));
    let scroll = 0;
    const follow = () => {
      // When another page takes its place, the window is shorter before this one is gone.
      if (entryNow() === entry) scroll = scrollY;
    };
    addEventListener('scroll', follow, { passive: true });
    return () => {
      removeEventListener('scroll', follow);
      all.delete(entry);
      all.set(entry, { value: latest.current, scroll });
      const [oldest] = all.keys();
      if (all.size > mostKept && oldest !== undefined) all.delete(oldest);
    };
  }, []);
  return {
    found: before.current?.value,
    keep(value) {
      latest.current = value;
    },
  };
}

/** What a reader of pages has found out with the first page, and needs for those after it. */
export interface Note {
  current: Record<string, string> | undefined;
}

/**
 * A list that Back, and a reload of its address, show as long as it was. What the reader of pages notes is kept with it. With
 * `everyMs` it's read again and again, as long as one page is shown.
 */
export function useKeptPages<T>(
  name: string,
  makeReadPage: (note: Note) => ReadPage<T>,
  everyMs?: number,
): Pages<T> {
  const { found, keep } = useKept<KeptPages<T> & { note: Note['current'] }>();
  const note = useRef(found?.note);
  const pages = usePages<T>(
    name,
    makeReadPage(note),
    pagesInAddress() === 1 ? everyMs : undefined,
    found,
    pagesInAddress,
  );
  keep(pages.kept && { ...pages.kept, note: note.current });
  const count = pages.kept?.pages.length;
  useEffect(() => {
    if (count !== undefined) notePages(count);
  }, [count]);
  return pages;
}

/** The browser's own note at the entry that is shown now. It has no secret. */
function keyOfEntry(): string {
  const entry = entryNow();
  if (entry !== undefined) return entry;
  const made = makeUuid();
  history.replaceState({ entry: made }, '');
  return made;
}

function entryNow(): string | undefined {
  return (history.state as { entry?: string } | null)?.entry;
}
