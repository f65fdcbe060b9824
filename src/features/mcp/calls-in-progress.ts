/** Calls of one consumer in progress at most, on a replica. */
export const mostAtOnce = 32;

export class CallsInProgress {
  readonly #counts = new Map<string, number>();

  isAtLimit(consumerId: string): boolean {
    return (this.#counts.get(consumerId) ?? 0) >= mostAtOnce;
  }

  async during<T>(consumerId: string, work: () => Promise<T>): Promise<T> {
    this.#counts.set(consumerId, (this.#counts.get(consumerId) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = (this.#counts.get(consumerId) ?? 1) - 1;
      if (left === 0) this.#counts.delete(consumerId);
      else this.#counts.set(consumerId, left);
    }
  }
}
