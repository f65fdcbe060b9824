export interface Gate {
  /** Resolves when the call may run; the returned function lets the next one in. */
  enter(): Promise<() => void>;
  /** Applies a changed limit to those who wait. */
  update(): void;
  /** Calls that run and have been running for at least `ms`. */
  runningSince(ms: number): number;
}

/** Lets `limit()` calls run at a time; the others wait in the order of their arrival. */
export function createGate(limit: () => number): Gate {
  const running = new Set<{ since: number }>();
  const waiting: (() => void)[] = [];

  const admit = (): (() => void) => {
    const entry = { since: Date.now() };
    running.add(entry);
    return () => {
      if (running.delete(entry)) update();
    };
  };
  const update = (): void => {
    while (running.size < limit()) {
      const next = waiting.shift();
      if (next === undefined) return;
      next();
    }
  };

  return {
    enter: () => {
      if (running.size < limit()) return Promise.resolve(admit());
      return new Promise((resolve) => waiting.push(() => resolve(admit())));
    },
    update,
    runningSince: (ms) => {
      const before = Date.now() - ms;
      let count = 0;
      for (const entry of running) if (entry.since <= before) count += 1;
      return count;
    },
  };
}
