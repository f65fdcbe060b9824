import { type Call, remainingMs } from '../../base/call.ts';
import { CrmFailure } from './failure.ts';
import { FairQueue } from './fair-queue.ts';

/** A call that many requests share. It takes turns with the consumers' own calls under a name of its own. */
export interface SharedCall extends Call {
  turn: string;
}

export interface Limiter {
  /**
   * Runs the work as soon as a slot is free; where many wait, parties take turns: consumers, and calls that several
   * requests share. Throws `CrmFailure` (crowded) where the call's time ends first.
   */
  run<T>(call: Call | SharedCall, work: () => Promise<T>): Promise<T>;
}

/** Bounds the calls in flight. How many may wait is seen to at the door (`room.ts`). */
export function createLimiter(slots: number): Limiter {
  let free = slots;
  const waiting = new FairQueue<() => void>();

  const take = (call: Call | SharedCall): Promise<void> | undefined => {
    if (free > 0) {
      free -= 1;
      return undefined;
    }
    const party = 'turn' in call ? call.turn : `consumer ${call.consumerId ?? ''}`;
    return new Promise<void>((resolve, reject) => {
      const turn = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(party, turn);
        reject(crowded());
      }, remainingMs(call));
      waiting.add(party, turn);
    });
  };

  /** The slot goes straight to the next in line, so that nobody who comes later slips in. */
  const giveBack = () => {
    const next = waiting.next();
    if (next === undefined) free += 1;
    else next();
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

export function crowded(): CrmFailure {
  return new CrmFailure('crowded', 'too many requests wait for the CRM', { retryAfter: 1 });
}
