/** A consumer may have so much less of a call than its part. */
const tolerance = 0.05;

/**
 * How a call is divided that batches of several kinds share: a consumer that has more requests waiting than go into it keeps
 * its part of those that do, whatever kinds the others have.
 */
export class CallDivision {
  /** Parts of the consumers that have more waiting. */
  readonly #kept: ReadonlyMap<string, number>;
  readonly #counts = new Map<string, number>();
  #total = 0;

  /** `parts`: of each consumer that asks; undefined where calls are not divided. */
  constructor(parts: ReadonlyMap<string, number> | undefined, waiting: ReadonlySet<string>) {
    this.#kept = new Map(parts?.entries().filter(([consumer]) => waiting.has(consumer)));
  }

  /** Whether one more request of this consumer leaves the others their parts. */
  mayHaveNext(consumer: string): boolean {
    for (const [each, part] of this.#kept) {
      if (each !== consumer && this.#countOf(each) < (part - tolerance) * (this.#total + 1)) return false;
    }
    return true;
  }

  note(consumer: string): void {
    this.#counts.set(consumer, this.#countOf(consumer) + 1);
    this.#total += 1;
  }

  #countOf(consumer: string): number {
    return this.#counts.get(consumer) ?? 0;
  }
}
