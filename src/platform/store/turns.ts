import { FairLimiter } from '../base/concurrency.ts';
import { Problem } from '../base/problem.ts';

/** Milliseconds. A request has 25 s; the rest is for the work. */
const longestWaitMs = 20_000;

/** Work at the database that may take long: of one consumer one at a time in this process, so that connections are left for others. */
export class Turns {
  readonly #places: FairLimiter;
  readonly #what: string;

  /** `what`: the end of `Other …` in a refusal. */
  constructor(atOnce: number, what: string) {
    this.#places = new FairLimiter(atOnce, 1);
    this.#what = what;
  }

  /** Throws what the work does, and `store_unavailable` where its turn doesn't come. */
  run<T>(consumerId: string, work: () => Promise<T>): Promise<T> {
    const refusal = () =>
      new Problem('store_unavailable', `Other ${this.#what} have taken too long.`, { retryAfter: 5 });
    return this.#places.run(consumerId, work, { ms: longestWaitMs, refusal });
  }
}
