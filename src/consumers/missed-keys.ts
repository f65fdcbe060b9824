/** Unknown API keys that are remembered, and for how long: a refresh forgets them earlier. */
const maxKeys = 10_000;
const keepMs = 30_000;

/** API keys that were looked up and not found, so that a caller with a stale key costs one read and not many. */
export function createMissedKeys(clock: () => number) {
  const missed = new Map<string, number>();
  return {
    has(apiKey: string): boolean {
      const until = missed.get(apiKey);
      if (until === undefined) return false;
      if (clock() < until) return true;
      missed.delete(apiKey);
      return false;
    },
    add(apiKey: string): void {
      const oldest = missed.keys().next().value;
      if (missed.size >= maxKeys && oldest !== undefined) missed.delete(oldest);
      missed.set(apiKey, clock() + keepMs);
    },
    clear: () => missed.clear(),
  };
}
