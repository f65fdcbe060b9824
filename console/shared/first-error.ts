import { createContext } from 'preact';
import { useContext, useLayoutEffect, useState } from 'preact/hooks';
import type { Problem } from './api.ts';
import { isOutage } from './outage.ts';

/** Failures of a page for one and the same reason, the first one first. */
export class Failures {
  readonly #all = new Set<object>();
  readonly #followers = new Set<() => void>();

  isFirst(one: object): boolean {
    const [first = one] = this.#all;
    return first === one;
  }

  /** Returns what takes it away again. */
  add(one: object): () => void {
    this.#all.add(one);
    this.#notify();
    return () => {
      this.#all.delete(one);
      this.#notify();
    };
  }

  /** Returns what ends that. */
  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => {
      this.#followers.delete(follower);
    };
  }

  #notify(): void {
    for (const follower of this.#followers) follower();
  }
}

export const FailuresContext = createContext(new Failures());

/** The strip above the page says what doesn't answer. */
export const StripContext = createContext(false);

/** Whether the strip tells of this problem. */
export function useIsTold(problem: Problem | undefined): boolean {
  const hasStrip = useContext(StripContext);
  return hasStrip && problem !== undefined && isOutage(problem);
}

/** Whether this is to be told, while it fails: one thing that does not answer is told once a page. */
export function useFirstError(isFailing: boolean): boolean {
  const failures = useContext(FailuresContext);
  const [own] = useState(() => ({}));
  const [, setChanges] = useState(0);
  useLayoutEffect(() => failures.follow(() => setChanges((count) => count + 1)), [failures]);
  useLayoutEffect(() => (isFailing ? failures.add(own) : undefined), [failures, isFailing]);
  return failures.isFirst(own);
}
