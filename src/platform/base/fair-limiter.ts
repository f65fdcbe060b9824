import { FairQueue } from './fair-queue.ts';

export class FairLimiter {
  readonly #atOnce: number;
  readonly #waiting = new FairQueue<() => Promise<void>>();
  readonly #busy = new Set<string>();

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** Runs the task when its turn comes. Throws what it does. */
  run<T>(tenant: string, task: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.add(tenant, () => task().then(resolve, reject));
      this.#startNext();
    });
  }

  waitingOf(tenant: string): number {
    return this.#waiting.countOf(tenant);
  }

  #startNext(): void {
    const isIdle = (tenant: string) => !this.#busy.has(tenant);
    while (this.#busy.size < this.#atOnce) {
      const [tenant] = this.#waiting.heads().find(([one]) => isIdle(one)) ?? [];
      const run = this.#waiting.next(undefined, isIdle);
      if (tenant === undefined || run === undefined) return;
      this.#busy.add(tenant);
      void run().finally(() => {
        this.#busy.delete(tenant);
        this.#startNext();
      });
    }
  }
}
