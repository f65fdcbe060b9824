import { clearInterval, setInterval } from './chance.ts';
import { coalesce } from './coalesce.ts';

const intervalMs = 1000;

interface WriteBehindOptions<Item> {
  /** Stores items, in the order of their keys. Those of a call that failed are written again. */
  write: (items: Item[]) => Promise<void>;
  /** Items that one call stores at most. */
  batchSize: number;
  /** Items that wait at most; none if left out. Of more, so many as a batch has are dropped, the oldest. */
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
    this.#timer = setInterval(() => this.#flushQuietly(), intervalMs);
    this.#timer.unref();
  }

  get size(): number {
    return this.#waiting.size;
  }

  add(key: string, item: Item): void {
    this.#waiting.set(key, item);
    this.#dropOldest();
    if (this.#waiting.size % this.#options.batchSize === 0) this.flushSoon();
  }

  flushSoon(): void {
    if (!this.#isFailing) this.#flushQuietly();
  }

  /** Writes what is left. Throws what the database does. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  #flushQuietly(): void {
    if (!this.#isRunning) this.flush().catch(() => undefined);
  }

  async #run(): Promise<void> {
    const { finish, onFailing, onRecovered } = this.#options;
    this.#isRunning = true;
    try {
      while (this.#waiting.size > 0) await this.#writeBatch();
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
    if (most !== undefined && this.#waiting.size > most) onDropped?.(this.#takeOldest().size);
  }
}
