import { type Call, remainingMs } from '../../platform/base/call.ts';
import { FairQueue } from '../../platform/base/fair-queue.ts';
import { queueFull } from './failure.ts';

/** A call to the CRM on behalf of many requests. */
export interface BatchCall extends Call {
  /** Name of the batcher: slots alternate between batchers and consumers. */
  batcher: string;
}

/** Between whom slots alternate: each consumer, and each batcher. */
export function tenantOf(call: Call | BatchCall): string {
  return 'batcher' in call ? call.batcher : `consumer ${call.consumerId ?? ''}`;
}

/** Bounds the calls in flight. How many may wait is up to `admission.ts`. */
export class Limiter {
  #free: number;
  readonly #waiting = new FairQueue<() => void>();

  constructor(slots: number) {
    this.#free = slots;
  }

  /**
   * Waits for a slot, and returns what gives it back. Where many wait, slots alternate between tenants.
   * Throws `CrmFailure` (queue_full) where the call's time ends first.
   */
  async acquire(call: Call | BatchCall): Promise<() => void> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#wait(call);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      // Straight to the next in line, so that no later call can take it.
      const next = this.#waiting.next();
      if (next === undefined) this.#free += 1;
      else next();
    };
  }

  #wait(call: Call | BatchCall): Promise<void> {
    const tenant = tenantOf(call);
    return new Promise((resolve, reject) => {
      const take = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(tenant, take);
        reject(queueFull());
      }, remainingMs(call));
      this.#waiting.add(tenant, take);
    });
  }
}
