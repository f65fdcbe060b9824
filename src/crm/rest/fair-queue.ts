/** What waits, in order of arrival for each party; the parties take turns, so that none can starve another. */
export class FairQueue<T> {
  /** By party, in the order of their turns. */
  readonly #parties = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(party: string, value: T): void {
    const queue = this.#parties.get(party);
    if (queue === undefined) this.#parties.set(party, new Set([value]));
    else queue.add(value);
    this.#size += 1;
  }

  /** Takes the next value out, or leaves it and returns undefined where it does not fit. */
  next(fits: (value: T) => boolean = () => true): T | undefined {
    for (const [party, queue] of this.#parties) {
      for (const value of queue) {
        if (!fits(value)) return undefined;
        this.delete(party, value);
        // To the end of the line.
        if (this.#parties.delete(party)) this.#parties.set(party, queue);
        return value;
      }
    }
    return undefined;
  }

  delete(party: string, value: T): void {
    const queue = this.#parties.get(party);
    if (queue === undefined || !queue.delete(value)) return;
    this.#size -= 1;
    if (queue.size === 0) this.#parties.delete(party);
  }

  *[Symbol.iterator](): Generator<T> {
    for (const queue of this.#parties.values()) yield* queue;
  }
}
