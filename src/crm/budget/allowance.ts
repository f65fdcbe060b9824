import { monotonicMs } from '../../platform/base/chance.ts';
export class Allowance {
  readonly rate: number;
  readonly #most: number;
  #available: number;
  #at = monotonicMs();

  constructor(rate: number, most: number, available = most) {
    this.rate = rate;
    this.#most = most;
    this.#available = available;
  }

  get available(): number {
    return Math.min(this.#most, this.#available + (monotonicMs() - this.#at) * this.rate);
  }

  add(more: number): void {
    this.#available = Math.min(this.#most, this.available + more);
    this.#at = monotonicMs();
  }

  /** Takes one; false where less than one is available. */
  take(): boolean {
    if (this.available < 1) return false;
    this.add(-1);
    return true;
  }
}
