import { type Call, remainingMs } from '../base/call.ts';
import { Problem } from '../base/problem.ts';

/** A page with more bytes than this needs a place among the large ones. */
export const largeFrom = 512 * 1024;
/** Large pages in progress in this process: from the reading of their rows until they are sent. */
const mostInAll = 16;
/** A consumer that reads its answers slowly delays its own pages, not those of others. */
const mostOfOneConsumer = 2;

/** The places of pages that are large: small ones need none. */
export interface LargePages {
  /** Takes a place until the returned function is called; undefined where none is free. */
  tryEnter(call: Call): (() => void) | undefined;
  /**
   * The same, once there is a place; first come, first served. Throws `Problem` (crm_unavailable) where there is none
   * while at least `reserveMs` milliseconds are left before the deadline.
   */
  enter(call: Call, reserveMs: number): Promise<() => void>;
}

export function createLargePages(): LargePages {
  const byConsumer = new Map<string, number>();
  let taken = 0;
  const waiting = new Set<() => void>();

  const tryEnter = (call: Call) => {
    const consumer = call.consumerId ?? '';
    const ofConsumer = byConsumer.get(consumer) ?? 0;
    if (taken >= mostInAll || ofConsumer >= mostOfOneConsumer) return undefined;
    taken += 1;
    byConsumer.set(consumer, ofConsumer + 1);
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      taken -= 1;
      const left = (byConsumer.get(consumer) ?? 1) - 1;
      if (left === 0) byConsumer.delete(consumer);
      else byConsumer.set(consumer, left);
      // A caller that gets the place removes itself.
      for (const lookAgain of waiting) lookAgain();
    };
  };

  return {
    tryEnter,
    enter: (call, reserveMs) =>
      new Promise((resolve, reject) => {
        const lookAgain = () => {
          const leave = tryEnter(call);
          if (leave === undefined) return;
          waiting.delete(lookAgain);
          clearTimeout(timer);
          resolve(leave);
        };
        const timer = setTimeout(
          () => {
            waiting.delete(lookAgain);
            reject(
              new Problem('crm_unavailable', 'Too many large pages are in progress.', { retryAfter: 1 }),
            );
          },
          Math.max(0, remainingMs(call) - reserveMs),
        );
        waiting.add(lookAgain);
        lookAgain();
      }),
  };
}
