import { pauseAfter } from './backoff.ts';
import { sleep } from './chance.ts';

/** In milliseconds. */
const pauses = { first: 250, most: 5000 };

interface WaitOptions {
  what: string;
  isPassing: (error: unknown) => boolean;
  signal: AbortSignal;
  log: { warn(details: object, message: string): void };
}

/** Repeats the work until it succeeds, waiting up to 5 s in between. Throws what is not passing, and when aborted. */
export async function waitUntilAvailable<T>(work: () => Promise<T>, options: WaitOptions): Promise<T> {
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
