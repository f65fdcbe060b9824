import { type Call, remainingMs } from '../../platform/base/call.ts';
import { clearTimeout, setTimeout } from '../../platform/base/chance.ts';
import { FairQueue } from '../../platform/base/fair-queue.ts';
import { queueFull } from './failure.ts';

/** A call to the CRM on behalf of many requests. */
export interface BatchCall extends Call {
  /** Name of the batcher: slots alternate between batchers and consumers. */
  batcher: string;
  /** For whom: the consumer of each request that shares it; undefined where that is the service itself. */
  sharers?: readonly (string | undefined)[];
}

/** Between whom slots alternate: each consumer, and each batcher. */
export function tenantOf(call: Call | BatchCall): string {
  return 'batcher' in call ? call.batcher : `consumer ${call.consumerId ?? ''}`;
}

/** The consumer of each request that a call is for; undefined where that is the service itself. */
export function sharersOf(call: Call | BatchCall): readonly (string | undefined)[] {
  return ('batcher' in call && call.sharers) || [call.consumerId];
}

/** Of these, how many are of each consumer; '' stands for the service itself. */
export function countByConsumer(sharers: readonly (string | undefined)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const consumer of sharers) counts.set(consumer ?? '', (counts.get(consumer ?? '') ?? 0) + 1);
  return counts;
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
