import { now } from '../../platform/base/chance.ts';
import { largestBatch } from '../rest/request.ts';

/** Time until twice as many are tried. */
const growsAfterMs = 10 * 60_000;

/**
 * The most records of one object in a write: triggers may do so much for each record that a large call exceeds a limit of
 * the transaction. Lowered in proportion to what succeeded, and doubled every ten minutes after that.
 */
export class ObjectSize {
  readonly #now: () => number;
  #most = largestBatch;
  #changedAt = 0;

  /** `clock`: milliseconds of any steady clock. */
  constructor(clock = now) {
    this.#now = clock;
  }

  /** Records that may go together, 1 to 200. */
  get most(): number {
    while (this.#most < largestBatch && this.#now() - this.#changedAt >= growsAfterMs) {
      this.#most = Math.min(largestBatch, this.#most * 2);
      this.#changedAt += growsAfterMs;
    }
    return this.#most;
  }

  /** `records` succeeded together and `of` did not: the limit falls in that ratio, not to 1, as the fault may have passed. */
  lower(records: number, of: number): void {
    this.#most = Math.max(1, Math.min(this.most, Math.ceil((this.most * records) / of)));
    this.#changedAt = this.#now();
  }
}
