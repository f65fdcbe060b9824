import { clearInterval, setImmediate, setInterval, setTimeout } from './chance.ts';
import { coalesce } from './concurrency.ts';

interface BatcherOptions<Request, Result> {
  execute: (requests: Request[]) => Promise<Result[]>;
  /** Batches in flight at most; requests that arrive meanwhile wait. */
  inFlight: number;
  /** Requests in a batch at most. */
  batchSize: number;
  /** Milliseconds that the first request of a batch waits for others; until the turn of the event loop ends if left out. */
  gatherMs?: number;
  /** Two requests with the same identity are never in one batch. */
  identity: (request: Request) => unknown;
  isShared: (error: unknown) => boolean;
  /** Whether a failure came so late that the requests that wait must wait no longer. */
  isHung: (error: unknown) => boolean;
}

interface Waiter<Request, Result> {
  request: Request;
  isAlone: boolean;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/**
 * Gathers requests into batches: what arrives in one turn of the event loop is one batch, and what
 * arrives while others are in flight is sent as soon as one of them is answered. (The embedded database works on this
 * thread: nothing arrives while it does, but much has when it is done.) Where a batch fails, each request is executed
 * alone, unless the failure would meet all.
 */
export function createBatcher<Request, Result>(
  options: BatcherOptions<Request, Result>,
): (request: Request) => Promise<Result> {
  const { execute, batchSize, gatherMs, identity, isShared, isHung } = options;
  let waiting: Waiter<Request, Result>[] = [];
  let inFlight = 0;
  let isPlanned = false;

  function planNext(): void {
    if (isPlanned || waiting.length === 0) return;
    isPlanned = true;
    const go = () => {
      isPlanned = false;
      sendNext();
    };
    if (gatherMs === undefined) setImmediate(go);
    else setTimeout(go, gatherMs);
  }

  function sendNext(): void {
    while (inFlight < options.inFlight && waiting.length > 0) {
      const batch = drawBatch();
      inFlight += 1;
      void send(batch).finally(() => {
        inFlight -= 1;
        planNext();
      });
    }
  }

  function drawBatch(): Waiter<Request, Result>[] {
    const seen = new Set<unknown>();
    const batch: Waiter<Request, Result>[] = [];
    const staying: Waiter<Request, Result>[] = [];
    for (const waiter of waiting) {
      const id = identity(waiter.request);
      const isFull = batch.length >= (batch[0]?.isAlone ? 1 : batchSize);
      const stays = isFull || seen.has(id) || (waiter.isAlone && batch.length > 0);
      (stays ? staying : batch).push(waiter);
      seen.add(id);
    }
    waiting = staying;
    return batch;
  }

  async function send(batch: Waiter<Request, Result>[]): Promise<void> {
    try {
      const results = await execute(batch.map(({ request }) => request));
      for (const [at, { resolve }] of batch.entries()) resolve(results[at] as Result);
    } catch (error) {
      if (batch.length > 1 && !isShared(error)) {
        waiting.unshift(...batch.map((waiter) => ({ ...waiter, isAlone: true })));
        return;
      }
      const failed = isHung(error) ? [...batch, ...waiting.splice(0)] : batch;
      for (const { reject } of failed) reject(error);
    }
  }

  return (request) =>
    new Promise((resolve, reject) => {
      waiting.push({ request, isAlone: false, resolve, reject });
      planNext();
    });
}

const intervalMs = 1000;

interface WriteBehindOptions<Item> {
  /** Stores items, in the order of their keys. Those of a call that failed are written again. */
  write: (items: Item[]) => Promise<void>;
  /** Items that one call stores at most. */
  batchSize: number;
  /** Items that wait at most; none if left out. Of more, as many as a batch has are dropped, the oldest. */
  most?: number;
  onDropped?: (count: number) => void;
  finish?: () => Promise<void>;
  /** Called for the first failure after a success, and for the first success after a failure. */
  onFailing?: (err: unknown) => void;
  onRecovered?: () => void;
}

/**
 * Collects items and writes them to the database each second, off the path of requests: the database may be slow or
 * unavailable, and no request waits or fails. Of one key only the newest item is written.
 */
export class WriteBehind<Item> {
  readonly #options: WriteBehindOptions<Item>;
  #waiting = new Map<string, Item>();
  readonly #timer: NodeJS.Timeout;
  #isRunning = false;
  #isFailing = false;

  /** Writes all that was added before this call. Throws what the database does; nothing is lost by that. */
  readonly flush = coalesce(() => this.#run());

  constructor(options: WriteBehindOptions<Item>) {
    this.#options = options;
    this.#timer = setInterval(() => {
      if (!this.#isRunning) this.#flushQuietly();
    }, intervalMs);
    this.#timer.unref();
  }

  get size(): number {
    return this.#waiting.size;
  }

  add(key: string, item: Item): void {
    const isNew = !this.#waiting.has(key);
    this.#waiting.set(key, item);
    this.#dropOldest();
    if (isNew && this.#waiting.size % this.#options.batchSize === 0) this.flushSoon();
  }

  flushSoon(): void {
    if (!this.#isFailing) this.#flushQuietly();
  }

  /** Writes what is left, and what is added meanwhile. Throws what the database does. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    do await this.flush();
    while (this.#waiting.size > 0);
  }

  #flushQuietly(): void {
    this.flush().catch(() => undefined);
  }

  async #run(): Promise<void> {
    const { batchSize, finish, onFailing, onRecovered } = this.#options;
    this.#isRunning = true;
    try {
      // Requests add the same keys again and again: what comes during a run is left for the next, or this one would not end.
      let left = this.#waiting.size;
      while (left > 0) {
        await this.#writeBatch();
        left = Math.min(left - batchSize, this.#waiting.size);
      }
      await finish?.();
    } catch (error) {
      if (!this.#isFailing) onFailing?.(error);
      this.#isFailing = true;
      throw error;
    } finally {
      this.#isRunning = false;
    }
    if (this.#isFailing) onRecovered?.();
    this.#isFailing = false;
  }

  async #writeBatch(): Promise<void> {
    const batch = this.#takeOldest();
    // In one order on every replica: two that write the same rows must not wait for each other.
    const items = [...batch].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, item]) => item);
    try {
      await this.#options.write(items);
    } catch (error) {
      // Newer ones count.
      this.#waiting = new Map([...batch, ...this.#waiting]);
      this.#dropOldest();
      throw error;
    }
  }

  #takeOldest(): Map<string, Item> {
    const taken = new Map<string, Item>();
    for (const [key, item] of this.#waiting) {
      if (taken.size === this.#options.batchSize) break;
      taken.set(key, item);
      this.#waiting.delete(key);
    }
    return taken;
  }

  #dropOldest(): void {
    const { most, onDropped } = this.#options;
    if (most === undefined || this.#waiting.size <= most) return;
    const { size } = this.#takeOldest();
    onDropped?.(size);
  }
}

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
