/** A row of random numbers that follows from its seed (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, 1. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  /** A whole number from `from` to `to`, both included. */
  whole(from: number, to: number): number {
    return from + Math.floor(this.fraction() * (to - from + 1));
  }

  between(from: number, to: number): number {
    return from + this.fraction() * (to - from);
  }

  /** There must be one. */
  pick<T>(among: readonly T[]): T {
    return among[this.whole(0, among.length - 1)] as T;
  }

  /** One name by its weight. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const all = Object.entries<number>(weights);
    let left = this.fraction() * all.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of all) {
      left -= weight;
      if (left < 0) return name as Name;
    }
    return all[0]?.[0] as Name;
  }

  bytes(length: number): Buffer<ArrayBuffer> {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; at++) bytes[at] = Math.floor(this.fraction() * 256);
    return bytes;
  }

  uuid(): string {
    const bytes = this.bytes(16);
    bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
    const hex = bytes.toString('hex');
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  }
}
