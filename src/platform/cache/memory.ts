import { now as clock, randomUUID, setImmediate } from '../base/chance.ts';
import { forgetOldest } from '../base/forget-oldest.ts';
import type { Lock } from '../base/lock.ts';
import type { SharedCache } from './shared-cache.ts';

/** Values kept at most; beyond that the oldest go first. A cache may forget, a process must not grow for ever. */
const maxEntries = 20_000;
const maxSeries = 100;

interface Entry {
  value: string;
  expires: number;
}

interface Listener {
  onMessage(message: string): void;
}

/**
 * The shared cache of a single process. It keeps the promises of the port, so that one process behaves as several
 * with Redis do. `now` is a clock in milliseconds.
 */
export function createMemoryCache(options: { now?: () => number } = {}): SharedCache {
  return new MemoryCache(options.now ?? clock);
}

class MemoryCache implements SharedCache {
  readonly kind = 'memory';
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  /** Apart from the values, so that a flood of values never evicts a lock that is held. */
  readonly #locks = new Map<string, Entry>();
  readonly #listeners = new Map<string, Set<Listener>>();
  #fence = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  async time(): Promise<number> {
    return this.#now();
  }

  async get(key: string): Promise<string | undefined> {
    return this.#live(this.#entries, key)?.value;
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    this.#entries.delete(key);
    this.#entries.set(key, { value, expires: this.#now() + ttlMs });
    if (this.#entries.size > maxEntries) this.#forget();
  }

  async setIfEqual(
    key: string,
    expected: string | undefined,
    value: string,
    ttlMs: number,
  ): Promise<boolean> {
    if (this.#live(this.#entries, key)?.value !== expected) return false;
    await this.set(key, value, ttlMs);
    return true;
  }

  async delete(key: string): Promise<void> {
    this.#entries.delete(key);
  }

  async deleteMatching(beginning: string, end: string): Promise<number> {
    const least = beginning.length + end.length;
    const matching = [...this.#entries.keys()].filter(
      (key) => key.length >= least && key.startsWith(beginning) && key.endsWith(end),
    );
    const alive = matching.filter((key) => this.#live(this.#entries, key) !== undefined);
    for (const key of matching) this.#entries.delete(key);
    return alive.length;
  }

  async deleteIfEqual(key: string, value: string): Promise<boolean> {
    if (this.#live(this.#entries, key)?.value !== value) return false;
    return this.#entries.delete(key);
  }

  async addToSeries(
    key: string,
    additions: ReadonlyMap<number, number>,
    { first, last }: { first: number; last: number },
    ttlMs: number,
  ): Promise<Map<number, number>> {
    const stored = JSON.parse(this.#live(this.#entries, key)?.value ?? '[]') as [number, number][];
    const series = new Map(stored);
    for (const [number, by] of additions) series.set(number, (series.get(number) ?? 0) + by);
    const kept = [...series].sort(([a], [b]) => a - b).slice(-maxSeries);
    await this.set(key, JSON.stringify(kept), ttlMs);
    return new Map(
      Array.from({ length: last - first + 1 }, (_, i) => [first + i, series.get(first + i) ?? 0]),
    );
  }

  async acquireLock(key: string, ttlMs: number): Promise<Lock | undefined> {
    if (this.#live(this.#locks, key) !== undefined) return undefined;
    const token = randomUUID();
    this.#locks.set(key, { value: token, expires: this.#now() + ttlMs });
    this.#fence += 1;
    const isHeld = async () => this.#live(this.#locks, key)?.value === token;
    const release = async () => {
      if (await isHeld()) this.#locks.delete(key);
    };
    return { fence: this.#fence, isHeld, release };
  }

  async publish(channel: string, message: string): Promise<number> {
    const listeners = [...(this.#listeners.get(channel) ?? [])];
    for (const listener of listeners) {
      // Later and each on its own, as from a server: the publisher never runs, or fails with, its listeners.
      setImmediate(() => {
        if (this.#listeners.get(channel)?.has(listener)) listener.onMessage(message);
      });
    }
    return listeners.length;
  }

  subscribe(channel: string, onMessage: (message: string) => void): () => void {
    const listener: Listener = { onMessage };
    const all = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, all.add(listener));
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.#listeners.get(channel) === all) this.#listeners.delete(channel);
    };
  }

  async checkHealth(): Promise<void> {}

  async close(): Promise<void> {
    this.#listeners.clear();
  }

  #live(entries: Map<string, Entry>, key: string): Entry | undefined {
    const entry = entries.get(key);
    if (entry === undefined || entry.expires > this.#now()) return entry;
    entries.delete(key);
    return undefined;
  }

  /** Drops what has expired, and where that is not enough the oldest tenth, so that it is not done at every write. */
  #forget(): void {
    const now = this.#now();
    for (const [key, entry] of this.#entries) {
      if (entry.expires <= now) this.#entries.delete(key);
    }
    if (this.#entries.size > maxEntries) forgetOldest(this.#entries, maxEntries * 0.9);
  }
}
