/** A secrets manager that answered is not asked again for this long, however many ask for its health. */
const goodForMs = 30_000;
const badForMs = 2000;

export interface SharedProbe {
  /** Resolves or throws as the probe did: one that runs now, or the last one while that is recent. */
  check(): Promise<void>;
  /** A call has failed: the next check probes again, whatever the last one said. */
  noteFailure(): void;
}

/**
 * Health of something far away. The health endpoint is open to everybody: without this, it could be used to load the
 * secrets manager, to spend its quota or to run up its bill. `now` is in milliseconds.
 */
export function createSharedProbe(probe: () => Promise<void>, now = () => performance.now()): SharedProbe {
  let last: { outcome: Promise<void>; isGood: boolean; until: number } | undefined;
  return {
    async check() {
      if (last !== undefined && now() < last.until) return last.outcome;
      // While it runs, everybody waits for it.
      const entry = { outcome: probe(), isGood: false, until: Number.POSITIVE_INFINITY };
      last = entry;
      try {
        await entry.outcome;
        entry.isGood = true;
        entry.until = now() + goodForMs;
      } catch (error) {
        entry.until = now() + badForMs;
        throw error;
      }
    },
    noteFailure() {
      if (last?.isGood === true) last = undefined;
    },
  };
}
