import { sleep } from './chance.ts';

const firstPauseMs = 250;
const longestPauseMs = 5000;

interface WaitOptions {
  /** For the log: the system that the wait is for. */
  what: string;
  /** Whether an error is a passing one; any other ends the wait. */
  isPassing: (error: unknown) => boolean;
  signal: AbortSignal;
  log: { warn(details: object, message: string): void };
}

/** Repeats the work until it succeeds, waiting up to 5 s in between. Throws what is not passing, and when aborted. */
export async function waitUntilAvailable<T>(work: () => Promise<T>, options: WaitOptions): Promise<T> {
  const { what, isPassing, signal, log } = options;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (!isPassing(error)) throw error;
      log.warn({ reason: error instanceof Error ? error.message : String(error) }, `waiting for ${what}`);
    }
    await sleep(pauseMs, { signal });
  }
}
