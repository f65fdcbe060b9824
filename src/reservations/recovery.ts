import type { Log } from '../observability/log.ts';
import type { Reservations } from './reservations.ts';

/** How often each replica asks for plans that nobody drives: a dead owner's are due once its lease is over. */
const pollMs = 2000;
/** One that hangs must not hold up the others. */
const atOnce = 8;

/**
 * Starts the job that finishes what requests have left: killed, given up, or waiting for the partner. Its end waits for
 * the plans under way.
 */
export function startRecovery(reservations: Pick<Reservations, 'takeDue'>, log: Log): AsyncDisposable {
  const underWay = new Set<Promise<void>>();
  let looking: Promise<void> | undefined;
  let stopped = false;

  /** Takes what is due, as far as there is room. */
  async function look(): Promise<void> {
    while (!stopped && underWay.size < atOnce) {
      const drive = await reservations.takeDue();
      if (!drive) return;
      const driving = drive().finally(() => {
        underWay.delete(driving);
        // Where there was no room, there may be more.
        wake();
      });
      underWay.add(driving);
    }
  }

  /** One look at a time. While the database is away there is nothing to find. */
  function wake(): void {
    if (stopped || looking) return;
    looking = look()
      .catch((error: unknown) => log.debug({ err: error }, 'could not look for unfinished reservations'))
      .finally(() => {
        looking = undefined;
      });
  }

  const timer = setInterval(wake, pollMs);
  return {
    async [Symbol.asyncDispose]() {
      stopped = true;
      clearInterval(timer);
      await looking;
      await Promise.all(underWay);
    },
  };
}
