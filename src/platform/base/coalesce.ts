/**
 * One run of the work at a time. Calls during a run share one more run afterwards, however many they are: the run may have
 * read before the change that a call is about. The promise settles as the run that began after the call.
 */
export function coalesce(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function start(): Promise<void> {
    next = undefined;
    running = work().finally(() => {
      running = undefined;
    });
    return running;
  }

  return () => {
    // Looked at first: for a moment it is there while no run is, and two runs must not be at once.
    if (next !== undefined) return next;
    if (running === undefined) return start();
    next = running.then(start, start);
    return next;
  };
}
