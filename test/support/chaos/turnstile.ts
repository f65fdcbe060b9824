/** Lets so many in at a time, and can be shut until all are out. */
export class Turnstile {
  readonly #capacity: number;
  readonly #waiting: (() => void)[] = [];
  #inside = 0;
  #shut = false;
  #whenEmpty: (() => void) | undefined;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    while (this.#shut || this.#inside >= this.#capacity) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#inside += 1;
    try {
      return await work();
    } finally {
      this.#inside -= 1;
      if (this.#inside === 0) this.#whenEmpty?.();
      this.#waiting.shift()?.();
    }
  }

  /** Runs something while nobody is inside. */
  async whileEmpty(work: () => Promise<void>): Promise<void> {
    this.#shut = true;
    if (this.#inside > 0) {
      await new Promise<void>((resolve) => {
        this.#whenEmpty = resolve;
      });
    }
    await work();
    this.#whenEmpty = undefined;
    this.#shut = false;
    for (const go of this.#waiting.splice(0)) go();
  }
}
