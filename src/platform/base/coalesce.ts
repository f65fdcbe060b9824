/**
 * One run of the work at a time. A call during a run makes it run once more afterwards, however many calls there were:
 * the run may have read before the change that the call is about. The promise resolves when no run is left to do, and
 * rejects where a run does.
 */
export function coalesce(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let isCalledAgain = false;

  async function runUntilDone(): Promise<void> {
    try {
      do {
        isCalledAgain = false;
        await work();
      } while (isCalledAgain);
    } finally {
      running = undefined;
    }
  }

  return () => {
    isCalledAgain = running !== undefined;
    running ??= runUntilDone();
    return running;
  };
}
