import { type Call, remainingMs } from '../platform/base/call.ts';
import { clearTimeout, setTimeout } from '../platform/base/chance.ts';
import { FairQueue } from '../platform/base/fair-queue.ts';
import { Problem } from '../platform/base/problem.ts';

/** A page with more bytes than this needs a slot for large pages. */
export const largeFrom = 512 * 1024;
/** Large pages that this process reads from the CRM at once; sending them to clients does not count. */
const mostInAll = 16;
/** So that slow pages of one consumer delay only its own. */
const mostOfOneConsumer = 4;

/** The slots for large pages; small ones need none. */
export interface LargePages {
  /** Takes a slot until the returned function is called; undefined where none is free. */
  tryEnter(call: Call): (() => void) | undefined;
  /**
   * The same, after waiting for a free slot; slots alternate between consumers. Throws `Problem` (crm_unavailable) if none is free before
   * only `reserveMs` milliseconds are left until the deadline.
   */
  enter(call: Call, reserveMs: number): Promise<() => void>;
}

export function createLargePages(): LargePages {
  const byConsumer = new Map<string, number>();
  let taken = 0;
  const waiting = new FairQueue<() => void>();

  const isBelowLimit = (consumer: string) => (byConsumer.get(consumer) ?? 0) < mostOfOneConsumer;

  const tryEnter = ({ consumerId: consumer = '' }: Call) => {
    if (taken >= mostInAll || !isBelowLimit(consumer)) return undefined;
    taken += 1;
    byConsumer.set(consumer, (byConsumer.get(consumer) ?? 0) + 1);
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      taken -= 1;
      const left = (byConsumer.get(consumer) ?? 1) - 1;
      if (left === 0) byConsumer.delete(consumer);
      else byConsumer.set(consumer, left);
      waiting.next(undefined, isBelowLimit)?.();
    };
  };

  return {
    tryEnter,
    enter: (call, reserveMs) =>
      new Promise((resolve, reject) => {
        const leave = tryEnter(call);
        if (leave !== undefined) return resolve(leave);
        const { consumerId: consumer = '' } = call;
        const enter = () => {
          clearTimeout(timer);
          resolve(tryEnter(call) as () => void);
        };
        const timer = setTimeout(
          () => {
            waiting.delete(consumer, enter);
            reject(
              new Problem('crm_unavailable', 'Too many large pages are in progress.', { retryAfter: 1 }),
            );
          },
          Math.max(0, remainingMs(call) - reserveMs),
        );
        waiting.add(consumer, enter);
      }),
  };
}
