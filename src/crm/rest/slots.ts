import { clearTimeout, setTimeout } from '../../platform/base/chance.ts';
import { FairQueue } from '../../platform/base/concurrency.ts';

export class Slots {
  readonly #mostOfOne: number;
  readonly #taken = new Map<string, number>();
  readonly #waiting = new FairQueue<() => void>();
  #free: number;

  constructor(slots: number, mostOfOne = slots) {
    this.#free = slots;
    this.#mostOfOne = mostOfOne;
  }

  tryTake(tenant: string): (() => void) | undefined {
    if (this.#free === 0 || !this.#mayTake(tenant)) return undefined;
    this.#free -= 1;
    this.#count(tenant, 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#count(tenant, -1);
      this.#free += 1;
      // Straight to the next in line, so that no later one can take it.
      this.#waiting.next(undefined, (next) => this.#mayTake(next))?.();
    };
  }

  /** Waits for a free slot. Throws the refusal where that takes longer than `mostMs` milliseconds. */
  take(tenant: string, mostMs: number, refusal: () => Error): Promise<() => void> {
    const taken = this.tryTake(tenant);
    if (taken !== undefined) return Promise.resolve(taken);
    return new Promise((resolve, reject) => {
      const takeNow = () => {
        clearTimeout(timer);
        resolve(this.tryTake(tenant) as () => void);
      };
      const timer = setTimeout(
        () => {
          this.#waiting.delete(tenant, takeNow);
          reject(refusal());
        },
        Math.max(0, mostMs),
      );
      this.#waiting.add(tenant, takeNow);
    });
  }

  #mayTake(tenant: string): boolean {
    return (this.#taken.get(tenant) ?? 0) < this.#mostOfOne;
  }

  #count(tenant: string, change: number): void {
    const count = (this.#taken.get(tenant) ?? 0) + change;
    if (count === 0) this.#taken.delete(tenant);
    else this.#taken.set(tenant, count);
  }
}
