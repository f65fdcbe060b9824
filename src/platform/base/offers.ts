export interface Offer<T> {
  readonly name: string;
  readonly type?: T;
}

export function defineOffer<T>(name: string): Offer<T> {
  return { name };
}

export class Offers {
  readonly #made = new Map<Offer<unknown>, unknown>();

  /** Throws where another feature has made the same offer. */
  make<T>(offer: Offer<T>, value: T): void {
    if (this.#made.has(offer)) throw new Error(`two features offer ${offer.name}`);
    this.#made.set(offer, value);
  }

  add<T>(offer: Offer<readonly T[]>, value: T): void {
    this.#made.set(offer, [...(this.find(offer) ?? []), value]);
  }

  find<T>(offer: Offer<T>): T | undefined {
    return this.#made.get(offer) as T | undefined;
  }
}
