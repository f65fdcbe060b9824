import { setTimeout as sleep } from 'node:timers/promises';

const longestPauseMs = 250;

interface Options {
  /** Between the first two looks; then it grows, since a look costs more than to notice a little later. */
  everyMs?: number;
  /** How long it may take until it is so on a machine that is busy. */
  withinMs?: number;
  /** In place of a pause: what makes time pass in a test that holds it. */
  pause?: () => Promise<unknown>;
}

/**
 * Looks again and again until `check` no longer throws, and gives what it returned. Once `withinMs` are over it throws what the
 * last look did, which says what was there instead.
 */
export async function eventually<T>(
  check: () => T | Promise<T>,
  { everyMs = 20, withinMs = 120_000, pause }: Options = {},
): Promise<T> {
  let pauseMs = everyMs;
  const end = performance.now() + withinMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end)
        throw new Error(
          `Not so within ${withinMs} ms: ${error instanceof Error ? error.message : String(error)}`,
          {
            cause: error,
          },
        );
    }
    await (pause?.() ?? sleep(pauseMs));
    pauseMs = Math.max(everyMs, Math.min(pauseMs * 1.2, longestPauseMs));
  }
}
