/** Differences below this, in milliseconds, are jitter, or a clock that is being adjusted. */
const noticeableMs = 250;

/**
 * Milliseconds since some moment, for leases and deadlines. The monotonic clock of a process stands still while its
 * machine is suspended (Linux, CLOCK_MONOTONIC), and others' leases run out meanwhile. So what the wall clock has gained
 * on it is added; a wall clock that is set back changes nothing.
 */
export function createClock(monotonic: () => number, wall: () => number): () => number {
  let difference = wall() - monotonic();
  let gained = 0;
  return () => {
    const time = monotonic();
    const change = wall() - time - difference;
    if (Math.abs(change) > noticeableMs) {
      difference += change;
      gained += Math.max(0, change);
    }
    return time + gained;
  };
}

/** The clock of this process. */
export const now: () => number = createClock(
  () => performance.now(),
  () => Date.now(),
);

let lastMs = Number.NaN;
let lastText = '';

/** Milliseconds since 1970 as RFC 3339 in UTC. The last text is kept: a busy process writes the same one many times. */
export function formatTimestamp(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
