import { type Call, remainingMs } from '../../base/call.ts';
import { Problem } from '../../base/problem.ts';

/** Calls that may wait for each slot; more would only wait in vain. */
const waitingPerSlot = 50;

export interface Limiter {
  /** Runs the work as soon as a slot is free, first come first served. Throws `Problem` (crm_unavailable). */
  run<T>(call: Call, work: () => Promise<T>): Promise<T>;
}

/** Bounds the calls in flight. Turns by consumer, where one must not starve the others, would go here. */
export function createLimiter(slots: number): Limiter {
  let free = slots;
  /** In order of arrival; a waiter that gave up takes itself out. */
  const waiting = new Set<() => void>();

  const take = async (call: Call): Promise<void> => {
    if (free > 0) {
      free -= 1;
      return;
    }
    if (waiting.size >= slots * waitingPerSlot) throw tooMany();
    await new Promise<void>((resolve, reject) => {
      const turn = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(turn);
        reject(tooMany());
      }, remainingMs(call));
      waiting.add(turn);
    });
  };

  /** The slot goes straight to the next in line, so that nobody who comes later slips in. */
  const giveBack = () => {
    const [next] = waiting;
    if (next === undefined) {
      free += 1;
      return;
    }
    waiting.delete(next);
    next();
  };

  return {
    async run(call, work) {
      await take(call);
      try {
        return await work();
      } finally {
        giveBack();
      }
    },
  };
}

function tooMany(): Problem {
  return new Problem('crm_unavailable', 'Too many requests wait for the CRM.', { retryAfter: 1 });
}
