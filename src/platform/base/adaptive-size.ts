/** A size that is halved where it was too much and doubled where it was not, between its two bounds. */
export class AdaptiveSize {
  readonly #fewest: number;
  readonly #most: number;
  #value: number;

  constructor(fewest: number, most: number) {
    this.#fewest = fewest;
    this.#most = most;
    this.#value = most;
  }

  get value(): number {
    return this.#value;
  }

  get isMost(): boolean {
    return this.#value === this.#most;
  }

  double(): void {
    this.#value = Math.min(this.#most, this.#value * 2);
  }

  halve(): void {
    this.lowerTo(Math.floor(this.#value / 2));
  }

  lowerTo(value: number): void {
    this.#value = Math.max(this.#fewest, Math.min(this.#value, value));
  }
}
