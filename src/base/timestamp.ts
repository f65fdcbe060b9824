let lastMs = Number.NaN;
let lastText = '';

/** Milliseconds since 1970 as RFC 3339 in UTC. Kept for the moment: a busy process writes the same one many times. */
export function formatTimestamp(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
