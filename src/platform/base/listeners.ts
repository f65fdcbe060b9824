export class Listeners<A extends unknown[]> {
  readonly #listeners: ((...args: A) => void | Promise<void>)[] = [];

  add(listener: (...args: A) => void | Promise<void>): void {
    this.#listeners.push(listener);
  }

  /** Calls all of them at once, and waits for all. Throws what one of them throws. */
  async notify(...args: A): Promise<void> {
    await Promise.all(this.#listeners.map(async (listener) => listener(...args)));
  }
}
