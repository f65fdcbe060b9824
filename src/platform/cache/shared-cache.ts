import type { Locks } from '../base/lock.ts';

/**
 * The port to the cache that all replicas share. Nothing in it is needed for ever, and every caller must get along
 * without it: every method may throw `CacheUnavailable`.
 */
export interface SharedCache extends Locks {
  readonly kind: 'memory' | 'redis';
  /** Milliseconds since some moment, by one clock for all replicas. */
  time(): Promise<number>;
  get(key: string): Promise<string | undefined>;
  /** Keeps the value for `ttlMs` milliseconds. */
  set(key: string, value: string, ttlMs: number): Promise<void>;
  /**
   * Keeps the value only where the key still holds `expected`, or holds nothing where that is undefined; returns whether
   * it did. One step: no change comes between reading and writing.
   */
  setIfEqual(key: string, expected: string | undefined, value: string, ttlMs: number): Promise<boolean>;
  delete(key: string): Promise<void>;
  /** Deletes all keys with this beginning and this end, none of which may hold `*`, `?`, `[` or `\\`; returns how many. */
  deleteMatching(beginning: string, end: string): Promise<number>;
  /** Deletes the key only while it still holds this value: a newer value stays. */
  deleteIfEqual(key: string, value: string): Promise<boolean>;
  /**
   * Adds to a series of counters, each known by a whole number, and returns those of the range. The series vanishes
   * `ttlMs` after its last addition. It holds some 100 counters: those with the least numbers may be forgotten.
   */
  addToSeries(
    key: string,
    additions: ReadonlyMap<number, number>,
    range: { first: number; last: number },
    ttlMs: number,
  ): Promise<Map<number, number>>;
  /**
   * Sends to all subscribers on all replicas, this one included: once each, and not to those without a connection. Returns
   * how many connections it was sent to: after 0 nobody gets it.
   */
  publish(channel: string, message: string): Promise<number>;
  /** Returns a function that ends it. `onReconnect` is called when announcements may have been missed. */
  subscribe(channel: string, listener: (message: string) => void, onReconnect?: () => void): () => void;
  checkHealth(): Promise<void>;
  close(): Promise<void>;
}

export class CacheUnavailable extends Error {
  override readonly name = 'CacheUnavailable';
}
