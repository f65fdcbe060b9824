/** Waiting values, first in, first out for each tenant; tenants take turns, so that none can starve another. */
export class FairQueue<T> {
  readonly #tenants = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(tenant: string, value: T): void {
    const queue = this.#tenants.get(tenant);
    if (queue === undefined) this.#tenants.set(tenant, new Set([value]));
    else queue.add(value);
    this.#size += 1;
  }

  /**
   * Removes and returns the next value, of those tenants that may have one now; undefined, and nothing is removed, where it
   * does not fit.
   */
  next(
    fits: (value: T) => boolean = () => true,
    mayHaveNext: (tenant: string) => boolean = () => true,
  ): T | undefined {
    for (const [tenant, queue] of this.#tenants) {
      if (!mayHaveNext(tenant)) continue;
      for (const value of queue) {
        if (!fits(value)) return undefined;
        this.take(tenant, value);
        return value;
      }
    }
    return undefined;
  }

  take(tenant: string, value: T): void {
    const queue = this.#tenants.get(tenant);
    this.delete(tenant, value);
    if (queue !== undefined && this.#tenants.size > 1 && this.#tenants.delete(tenant))
      this.#tenants.set(tenant, queue);
  }

  *lines(): Generator<[tenant: string, values: Iterable<T>]> {
    yield* this.#tenants;
  }

  *heads(): Generator<[tenant: string, first: T]> {
    for (const [tenant, queue] of this.#tenants)
      for (const value of queue.values().take(1)) yield [tenant, value];
  }

  *counts(): Generator<[tenant: string, count: number]> {
    for (const [tenant, { size }] of this.#tenants) yield [tenant, size];
  }

  countOf(tenant: string): number {
    return this.#tenants.get(tenant)?.size ?? 0;
  }

  delete(tenant: string, value: T): void {
    const queue = this.#tenants.get(tenant);
    if (queue === undefined || !queue.delete(value)) return;
    this.#size -= 1;
    if (queue.size === 0) this.#tenants.delete(tenant);
  }

  *[Symbol.iterator](): Generator<T> {
    for (const queue of this.#tenants.values()) yield* queue;
  }
}
