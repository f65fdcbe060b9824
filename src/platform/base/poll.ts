import { clearInterval, setInterval } from './chance.ts';
import { coalesce } from './coalesce.ts';

/** How often each replica checks: work of a dead process is due once its lease is over. */
const usualPollMs = 2000;

interface PollOptions {
  what: string;
  /** Finds and does what is due. May throw: the next check tries again. `stopping` is aborted when it should end. */
  check: (stopping: AbortSignal) => Promise<void>;
  log: { warn(details: object, message: string): void };
  /** Milliseconds between two checks; two seconds if left out. */
  pollMs?: number;
}

export interface Polling {
  wake(): void;
  stop(): Promise<void>;
}

/**
 * Checks the database for due work every few seconds, in this process: pg-boss works by the minute. One check at a time.
 */
export function startPolling({ what, check, log, pollMs = usualPollMs }: PollOptions): Polling {
  const stop = new AbortController();
  let isFailing = false;

  const poll = coalesce(async () => {
    if (stop.signal.aborted) return;
    try {
      await check(stop.signal);
      isFailing = false;
    } catch (err) {
      // Once, not every few seconds while the database is unavailable.
      if (!isFailing) log.warn({ err }, `the check for ${what} failed`);
      isFailing = true;
    }
  });

  const timer = setInterval(() => void poll(), pollMs);
  return {
    wake: () => void poll(),
    async stop() {
      stop.abort();
      clearInterval(timer);
      // Waits for the one under way, if there is one.
      await poll();
    },
  };
}
