import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { type Attempt, type AttemptRecorder, createAttemptIds } from './attempt.ts';
import type { AttemptTable, StoredAttempt } from './attempt-table.ts';
import { AttemptTotals } from './attempt-totals.ts';

const batchSize = 500;
/** Batches that wait at most: 50,000 attempts, some 30 MB; the first and the last of them may be filled in part. */
const maxBatches = 102;
const flushIntervalMs = 1000;

export interface AttemptArchiveOptions {
  table: Pick<AttemptTable, 'add' | 'addTotals'>;
  log: Log;
  metrics: Pick<Metrics, 'auditAttemptsDropped'>;
}

/**
 * Writes attempts to the database in batches, each second or when there are 500, off the path of requests: the
 * database may be slow or unavailable, and no request waits or fails. Meanwhile up to 50,000 attempts are kept. Those
 * dropped beyond that are still in the log, and a metric counts them. Attempts of addresses that fail too often and of
 * consumers that are refused too often are added up, and the sums are written.
 */
export class AttemptArchive implements AttemptRecorder {
  readonly #options: AttemptArchiveOptions;
  readonly #newId = createAttemptIds();
  /** Oldest first; only the last one grows. */
  readonly #batches: StoredAttempt[][] = [];
  readonly #totals: AttemptTotals;
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> | undefined;
  #failing = false;

  constructor(options: AttemptArchiveOptions) {
    this.#options = options;
    this.#totals = new AttemptTotals(this.#newId, (attempts) => this.#countDropped(attempts));
    this.#timer = setInterval(() => this.#flushSoon(), flushIntervalMs);
    this.#timer.unref();
  }

  record(attempt: Attempt): void {
    if (attempt.sum !== undefined) return this.#totals.add(attempt, attempt.sum);
    let batch = this.#batches.at(-1);
    if (batch === undefined || batch.length >= batchSize) {
      batch = [];
      this.#batches.push(batch);
      if (this.#batches.length > maxBatches) this.#dropOldest();
    }
    batch.push({ ...attempt, id: this.#newId(attempt.timestamp) });
    if (batch.length === batchSize && !this.#failing) this.#flushSoon();
  }

  /** Writes all that was recorded before this call. Throws what the database does; nothing is lost by that. */
  async flush(): Promise<void> {
    await this.#flushing?.catch(() => undefined);
    this.#flushing ??= this.#writeAll().finally(() => {
      this.#flushing = undefined;
    });
    await this.#flushing;
  }

  /** Writes what is left; the number of attempts that the database does not take now is logged. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush().catch((err: unknown) => {
      const single = this.#batches.reduce((sum, { length }) => sum + length, 0);
      const attempts = single + this.#totals.unstoredAttempts;
      this.#options.log.error(
        { err, attempts },
        'authentication attempts could not be written to the database',
      );
    });
  }

  #flushSoon(): void {
    const isEmpty = this.#batches.length === 0 && this.#totals.size === 0;
    if (isEmpty || this.#flushing !== undefined) return;
    this.flush().catch(() => undefined);
  }

  async #writeAll(): Promise<void> {
    const { table } = this.#options;
    for (let batch = this.#batches.shift(); batch !== undefined; batch = this.#batches.shift()) {
      const taken = batch;
      await this.#write(() => table.add(taken)).catch((error: unknown) => this.#putBack(taken, error));
    }
    const totals = this.#totals.unstored();
    while (totals.length > 0) {
      const taken = totals.splice(0, batchSize);
      await this.#write(() => table.addTotals(taken));
      this.#totals.markStored(taken);
    }
  }

  async #write(work: () => Promise<void>): Promise<void> {
    const { log } = this.#options;
    try {
      await work();
    } catch (err) {
      if (!this.#failing) log.warn({ err }, 'authentication attempts wait in memory for the database');
      this.#failing = true;
      throw err;
    }
    if (this.#failing) log.info({}, 'authentication attempts are written to the database again');
    this.#failing = false;
  }

  #putBack(batch: StoredAttempt[], error: unknown): never {
    this.#batches.unshift(batch);
    if (this.#batches.length > maxBatches) this.#dropOldest();
    throw error;
  }

  #dropOldest(): void {
    this.#countDropped(this.#batches.shift()?.length ?? 0);
  }

  #countDropped(attempts: number): void {
    this.#options.metrics.auditAttemptsDropped.inc(attempts);
  }
}
