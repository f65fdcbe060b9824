import { FairQueue } from './fair-queue.ts';

/** Work of which a little is done at once; tenants take turns, and of each one piece is done after the other. */
export interface Turns {
  /** Does the work when its turn comes. Throws what it does. */
  run<T>(tenant: string, work: () => Promise<T>): Promise<T>;
  /** How many pieces of a tenant wait. */
  waitingOf(tenant: string): number;
}

export function createTurns(atOnce: number): Turns {
  const waiting = new FairQueue<() => Promise<void>>();
  const busy = new Set<string>();

  const isIdle = (tenant: string) => !busy.has(tenant);

  function goOn(): void {
    while (busy.size < atOnce) {
      const [tenant] = waiting.heads().find(([one]) => isIdle(one)) ?? [];
      const work = waiting.next(undefined, isIdle);
      if (tenant === undefined || work === undefined) return;
      busy.add(tenant);
      void work().finally(() => {
        busy.delete(tenant);
        goOn();
      });
    }
  }

  return {
    run: (tenant, work) =>
      new Promise((resolve, reject) => {
        waiting.add(tenant, () => work().then(resolve, reject));
        goOn();
      }),
    waitingOf: (tenant) => waiting.countOf(tenant),
  };
}
