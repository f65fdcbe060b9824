import { clearInterval, clearTimeout, now, setInterval, setTimeout, sleep } from './chance.ts';
import { coalesce } from './concurrency.ts';

/** In one unit. */
interface Backoff {
  first: number;
  most: number;
  /** Growth with each further one; 2 where it is left out. */
  factor?: number;
}

/** The pause after this many failures in a row, 1 or more, in the unit of `first`. */
export function pauseAfter(failures: number, { first, most, factor = 2 }: Backoff): number {
  // Beyond that `most` is long reached, and numbers would become infinite.
  return Math.min(most, first * factor ** Math.min(failures - 1, 40));
}

/** The result of the work, if it comes within `ms` milliseconds. Throws what `late` makes else; the work goes on. */
export async function inTime<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(() => deadline.reject(late()), ms);
  try {
    return await Promise.race([work, deadline.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** In milliseconds. */
const pauses = { first: 250, most: 5000 };

/** Repeats the work until it succeeds, waiting up to 5 s in between. Throws what is not passing, and when aborted. */
export async function waitUntilAvailable<T>(
  work: () => Promise<T>,
  options: {
    what: string;
    isPassing: (error: unknown) => boolean;
    signal: AbortSignal;
    log: { warn(details: object, message: string): void };
  },
): Promise<T> {
  const { what, isPassing, signal, log } = options;
  for (let tries = 1; ; tries += 1) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (!isPassing(error)) throw error;
      log.warn({ reason: error instanceof Error ? error.message : String(error) }, `waiting for ${what}`);
    }
    await sleep(pauseAfter(tries, pauses), { signal });
  }
}

/** How often each replica checks: work of a dead process is due once its lease is over. */
const usualPollMs = 2000;

interface PollingOptions {
  what: string;
  /** Finds and does what is due. May throw: the next check tries again. `stopping` is aborted when it should end. */
  check: (stopping: AbortSignal) => Promise<void>;
  log: { warn(details: object, message: string): void };
  /** Milliseconds between two checks; two seconds if left out. */
  pollMs?: number;
}

/**
 * Checks the database for due work every few seconds, in this process: pg-boss works by the minute. One check at a time.
 */
export function startPolling({ what, check, log, pollMs = usualPollMs }: PollingOptions) {
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
    wake: (): void => void poll(),
    async stop(): Promise<void> {
      stop.abort();
      clearInterval(timer);
      // Waits for the one under way, if there is one.
      await poll();
    },
  };
}

export type Polling = ReturnType<typeof startPolling>;

const tickMs = 200;
const longestMs = 1000;

/**
 * Counts the pauses of this process: it was stopped, its machine was suspended, or something kept it busy for over a second.
 * One is noticed by who asks first: after a pause, what waits in sockets is read before timers run.
 */
export class Pauses {
  #count = 0;
  #seenAt = now();
  readonly #timer = setInterval(() => void this.count, tickMs).unref();

  get count(): number {
    const time = now();
    if (time - this.#seenAt > longestMs) this.#count += 1;
    this.#seenAt = time;
    return this.#count;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
