import { clearTimeout, setTimeout } from './chance.ts';

/**
 * One run of the work at a time. Calls during a run share one more run afterwards, however many they are: the run may have
 * read before the change that a call is about. The promise settles as the run that began after the call.
 */
export function coalesce(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function start(): Promise<void> {
    next = undefined;
    running = work().finally(() => {
      running = undefined;
    });
    return running;
  }

  return () => {
    // Looked at first: for a moment it is there while no run is, and two runs must not be at once.
    if (next !== undefined) return next;
    if (running === undefined) return start();
    next = running.then(start, start);
    return next;
  };
}

/**
 * Does the work for each item, by this many workers at once. A worker ends with its first failure; throws one of the failures
 * once all workers have ended.
 */
export async function inParallel<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  const worker = async () => {
    for (const item of waiting) await work(item);
  };
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, worker);
  const outcomes = await Promise.allSettled(workers);
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason as Error;
}

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

interface WaitLimit {
  ms: number;
  refusal: () => Error;
}

/** This many places in all, and this many of them for one tenant; those that wait for one take turns. */
export class FairLimiter {
  readonly #mostOfOne: number;
  readonly #taken = new Map<string, number>();
  readonly #waiting = new FairQueue<() => void>();
  #free: number;

  constructor(places: number, mostOfOne = places) {
    this.#free = places;
    this.#mostOfOne = mostOfOne;
  }

  /** Runs the task when its turn comes. Throws what it does, and what `take` throws. */
  async run<T>(tenant: string, task: () => Promise<T>, limit?: WaitLimit): Promise<T> {
    const leave = this.tryTake(tenant) ?? (await this.take(tenant, limit));
    try {
      return await task();
    } finally {
      leave();
    }
  }

  /** Returns what gives the place back; undefined where the tenant would have to wait for one. */
  tryTake(tenant: string): (() => void) | undefined {
    if (this.#free === 0 || !this.#mayTake(tenant)) return undefined;
    this.#free -= 1;
    this.#count(tenant, 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#count(tenant, -1);
      this.#free += 1;
      // Straight to the next in line, so that no later one can take it.
      this.#waiting.next(undefined, (next) => this.#mayTake(next))?.();
    };
  }

  /** Waits for a place. Throws the refusal where that takes longer than `ms` milliseconds. */
  take(tenant: string, limit?: WaitLimit): Promise<() => void> {
    const taken = this.tryTake(tenant);
    if (taken !== undefined) return Promise.resolve(taken);
    return new Promise((resolve, reject) => {
      const refuse = (refusal: Error) => {
        this.#waiting.delete(tenant, takeNow);
        reject(refusal);
      };
      const timer = limit && setTimeout(() => refuse(limit.refusal()), Math.max(0, limit.ms));
      const takeNow = () => {
        clearTimeout(timer);
        resolve(this.tryTake(tenant) as () => void);
      };
      this.#waiting.add(tenant, takeNow);
    });
  }

  waitingOf(tenant: string): number {
    return this.#waiting.countOf(tenant);
  }

  #mayTake(tenant: string): boolean {
    return (this.#taken.get(tenant) ?? 0) < this.#mostOfOne;
  }

  #count(tenant: string, change: number): void {
    const count = (this.#taken.get(tenant) ?? 0) + change;
    if (count === 0) this.#taken.delete(tenant);
    else this.#taken.set(tenant, count);
  }
}

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
