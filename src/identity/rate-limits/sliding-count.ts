export const windowSeconds = 60;

interface Slot {
  second: number;
  /** Requests that all replicas counted, as the shared cache last reported. */
  shared: number;
  own: number;
}

/**
 * Counts of one key in the last 60 seconds, by second: some 70 slots at most. Of the second that is leaving the
 * window up to a tenth of the limit is left out: so no 60 seconds hold more than the limit and a tenth, however the
 * requests bunch, and a caller that sends evenly gets the whole limit.
 */
export class SlidingCount {
  readonly #slots: Slot[] = [];
  #total = 0;
  isWaiting = false;
  knownUntil = Number.NEGATIVE_INFINITY;

  get isEmpty(): boolean {
    return this.#slots.length === 0;
  }

  /** Drops what has left the window. `now` in milliseconds since 1970. */
  moveTo(now: number): void {
    const second = secondOf(now);
    // A clock that was set back further than the window.
    if ((this.#slots.at(-1)?.second ?? 0) > second + windowSeconds) this.#dropFirst(this.#slots.length);
    const kept = this.#slots.findIndex((slot) => slot.second >= second - windowSeconds);
    this.#dropFirst(kept === -1 ? this.#slots.length : kept);
  }

  usedOf(limit: number, now: number): number {
    const [oldest] = this.#slots;
    if (oldest?.second !== secondOf(now) - windowSeconds) return this.#total;
    return this.#total - Math.min(oldest.shared + oldest.own, limit / 10);
  }

  /** Whole seconds until something has left and one more is within the limit, from 1 to 60. */
  secondsUntilFree(limit: number, now: number): number {
    let left = 0;
    for (const { second, shared, own } of this.#slots) {
      left += shared + own;
      if (this.#total - left >= limit) continue;
      const seconds = second + windowSeconds + 1 - now / 1000;
      return Math.min(windowSeconds, Math.max(1, Math.ceil(seconds)));
    }
    return windowSeconds;
  }

  addOwn(now: number): void {
    this.#slotOf(secondOf(now)).own += 1;
    this.#total += 1;
  }

  ownCounts(): Map<number, number> {
    return new Map(this.#slots.filter(({ own }) => own > 0).map(({ second, own }) => [second, own]));
  }

  /** The cache has these, and knows those of all replicas. What has left the window meanwhile is left out. */
  markAdded(added: ReadonlyMap<number, number>, sums: ReadonlyMap<number, number>, now: number): void {
    const oldest = secondOf(now) - windowSeconds;
    for (const slot of this.#slots) slot.own -= added.get(slot.second) ?? 0;
    for (const [second, sum] of sums) {
      if (second < oldest) continue;
      const slot = this.#slotOf(second);
      // A cache that lost its content knows less than this replica.
      slot.shared = Math.max(sum, slot.shared);
    }
    this.#total = this.#slots.reduce((total, { shared, own }) => total + shared + own, 0);
  }

  #slotOf(second: number): Slot {
    const before = this.#slots.findLastIndex((slot) => slot.second <= second);
    const found = this.#slots[before];
    if (found?.second === second) return found;
    const slot = { second, shared: 0, own: 0 };
    this.#slots.splice(before + 1, 0, slot);
    return slot;
  }

  #dropFirst(count: number): void {
    if (count === 0) return;
    for (const { shared, own } of this.#slots.splice(0, count)) this.#total -= shared + own;
  }
}

export function secondOf(now: number): number {
  return Math.floor(now / 1000);
}
