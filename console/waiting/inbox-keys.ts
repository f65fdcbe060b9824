import type { AcceptedHandoff } from '@handoff-gateway/client';
import type { HTMLAttributes } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useSession } from '../shared/session.ts';

interface Inbox {
  /** Make a row one that can be marked. */
  attributesOf(handoff: AcceptedHandoff): HTMLAttributes<HTMLTableRowElement>;
  /** Marks the next one that nobody has decided on. */
  goOnFrom(handoff: AcceptedHandoff): void;
}

/** The keys of an inbox: J and K move the mark, A and R press the buttons of the marked row, U takes the last approval back. */
export function useInboxKeys(rows: readonly AcceptedHandoff[]): Inbox {
  const { approvals } = useSession();
  const [marked, mark] = useState<string | undefined>();
  const ids = rows.map(({ external_id }) => external_id);
  /** Where the mark was last: what takes the place of a row that is gone comes next. */
  const place = useRef(-1);
  const found = marked === undefined ? -1 : ids.indexOf(marked);
  if (found >= 0) place.current = found;
  const move = (step: number) => {
    const isGone = found < 0 && step > 0 && place.current >= 0;
    const wanted = place.current + (isGone ? 0 : step);
    mark(ids[Math.max(0, Math.min(ids.length - 1, wanted))]);
  };
  const press = (key: string) => {
    if (marked !== undefined)
      rowOf(marked)?.querySelector<HTMLElement>(`[aria-keyshortcuts="${key}"]`)?.click();
  };
  const undo = () => {
    const id = approvals.latest();
    if (id === undefined) return;
    approvals.undo(id);
    mark(id);
  };
  const keys: Readonly<Record<string, () => void>> = {
    j: () => move(1),
    k: () => move(-1),
    a: () => press('A'),
    r: () => press('R'),
    u: undo,
  };
  useKeys(keys);
  useLayoutEffect(() => {
    const row = marked === undefined ? null : rowOf(marked);
    if (row === null || row.contains(document.activeElement)) return;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: 'nearest' });
  }, [marked]);
  return {
    attributesOf: ({ external_id: id }) => ({
      id: idOfRow(id),
      tabIndex: -1,
      'aria-current': id === marked ? 'true' : undefined,
      onFocusIn: () => mark(id),
    }),
    goOnFrom({ external_id: id }) {
      const at = ids.indexOf(id);
      const isUndecided = (one: string) => one !== id && approvals.stateOf(one) === undefined;
      mark(ids.slice(at + 1).find(isUndecided) ?? ids.slice(0, at).findLast(isUndecided) ?? id);
    },
  };
}

function idOfRow(id: string): string {
  return `waiting-${id}`;
}

function rowOf(id: string): HTMLElement | null {
  return document.getElementById(idOfRow(id));
}

/** Keys do nothing while somebody types or answers a question, and mean something else with a modifier. */
function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const follow = (event: KeyboardEvent) => {
      const key = event.key.toLowerCase();
      const act = Object.hasOwn(latest.current, key) ? latest.current[key] : undefined;
      if (act === undefined || !isMeant(event)) return;
      // One that is held down moves, and decides nothing.
      if (event.repeat && !['j', 'k'].includes(key)) return;
      event.preventDefault();
      act();
    };
    addEventListener('keydown', follow);
    return () => removeEventListener('keydown', follow);
  }, []);
}

function isMeant({ ctrlKey, metaKey, altKey, shiftKey, target }: KeyboardEvent): boolean {
  const isModified = ctrlKey || metaKey || altKey || shiftKey;
  const isTyping =
    target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
  return !isModified && !isTyping && document.querySelector('dialog[open]') === null;
}
