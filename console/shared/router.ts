import { useLayoutEffect, useState } from 'preact/hooks';

/** The parts of the address after `#/`. They are names and ids, never credentials. */
export function useRoute(): string[] {
  const [route, setRoute] = useState(currentRoute);
  // At once: a link can be followed before the browser paints.
  useLayoutEffect(() => {
    const follow = () => setRoute(currentRoute());
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return route;
}

/**
 * Parameters of the page behind a question mark in its address, so that a reload and the way back show the same. `set` makes
 * an address of those that are not empty, without its own entry in the history where nothing changes.
 */
export function useParameters<N extends string>(
  names: readonly N[],
): [values: Record<N, string>, set: (values: Record<N, string>) => void] {
  const read = () => {
    const given = new URLSearchParams(location.hash.split('?', 2)[1]);
    return Object.fromEntries(names.map((name) => [name, given.get(name) ?? ''])) as Record<N, string>;
  };
  const [values, setValues] = useState(read);
  useLayoutEffect(() => {
    const follow = () => {
      const found = read();
      // The address that `set` made is known already: what was typed since then stays.
      setValues((old) => (names.every((name) => old[name] === found[name]) ? old : found));
    };
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  const set = (wanted: Record<N, string>) => {
    const given = new URLSearchParams(Object.entries<string>(wanted).filter(([, value]) => value !== ''));
    const [path = ''] = location.hash.split('?', 1);
    location.hash = given.size === 0 ? path : `${path}?${given}`;
    setValues(wanted);
  };
  return [values, set];
}

/** Addresses that people may have kept, of pages that have another one now. */
const moved = /^#\/(attempts|sign-ins)(?=[/?]|$)/;

function currentRoute(): string[] {
  // The new one takes the place of the old: Back does not return to it.
  if (moved.test(location.hash))
    history.replaceState(history.state, '', location.hash.replace(moved, '#/access-log'));
  return location.hash.replace(/^#\/?/, '').replace(/\?.*$/, '').split('/').filter(Boolean).map(decode);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** No reload reads more pages of a list than this. */
const mostPages = 20;

/** How many pages of a list the address asks for. */
export function pagesInAddress(): number {
  const count = Number(new URLSearchParams(location.hash.split('?', 2)[1]).get('pages') ?? 1);
  return Number.isInteger(count) && count > 0 ? Math.min(count, mostPages) : 1;
}

/** Notes in the address how many pages are shown, without an entry in the history of its own. */
export function notePages(count: number): void {
  if (count === pagesInAddress()) return;
  const [path = '', query] = location.hash.split('?', 2);
  const given = new URLSearchParams(query);
  given.delete('pages');
  if (count > 1) given.set('pages', String(count));
  history.replaceState(history.state, '', given.size === 0 ? path : `${path}?${given}`);
}
