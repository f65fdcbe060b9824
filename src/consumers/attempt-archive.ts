import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { createAttemptIds } from './attempt-id.ts';
import type { AttemptTable, StoredAttempt } from './attempt-table.ts';
import type { Attempt, AttemptRecorder } from './attempts.ts';

const batchSize = 500;
/** Batches that wait at most: 50,000 attempts, some 15 MB; the first and the last of them may be filled in part. */
const maxBatches = 102;
const flushIntervalMs = 1000;

export interface AttemptArchiveOptions {
  table: Pick<AttemptTable, 'add'>;
  log: Log;
  metrics: Pick<Metrics, 'auditAttemptsDropped'>;
}

/**
 * Writes attempts to the database in batches, each second or when 500 have gathered, off the path of requests: the
 * database may be slow or away, and no request waits or fails. Meanwhile up to 50,000 attempts are kept; what is
 * dropped beyond that stands in the log all the same, and a metric counts it.
 */
export class AttemptArchive implements AttemptRecorder {
  readonly #options: AttemptArchiveOptions;
  readonly #newId = createAttemptIds();
  /** Oldest first; only the last one grows. */
  readonly #batches: StoredAttempt[][] = [];
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> | undefined;
  #failing = false;

  constructor(options: AttemptArchiveOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#flushSoon(), flushIntervalMs);
    this.#timer.unref();
  }

  record(attempt: Attempt): void {
    let batch = this.#batches.at(-1);
    if (batch === undefined || batch.length >= batchSize) {
      batch = [];
      this.#batches.push(batch);
      if (this.#batches.length > maxBatches) this.#dropOldest();
    }
    batch.push({ id: this.#newId(attempt.timestamp), ...attempt });
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

  /** Writes what is left; what the database does not take now is lost to it, and the log says how much. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush().catch((err: unknown) => {
      const attempts = this.#batches.reduce((sum, { length }) => sum + length, 0);
      this.#options.log.error(
        { err, attempts },
        'authentication attempts could not be written to the database',
      );
    });
  }

  #flushSoon(): void {
    if (this.#batches.length === 0 || this.#flushing !== undefined) return;
    this.flush().catch(() => undefined);
  }

  async #writeAll(): Promise<void> {
    const { table, log } = this.#options;
    for (let batch = this.#batches.shift(); batch !== undefined; batch = this.#batches.shift()) {
      try {
        await table.add(batch);
      } catch (err) {
        this.#putBack(batch);
        if (!this.#failing) log.warn({ err }, 'authentication attempts wait in memory for the database');
        this.#failing = true;
        throw err;
      }
      if (this.#failing) log.info({}, 'authentication attempts are written to the database again');
      this.#failing = false;
    }
  }

  #putBack(batch: StoredAttempt[]): void {
    this.#batches.unshift(batch);
    if (this.#batches.length > maxBatches) this.#dropOldest();
  }

  #dropOldest(): void {
    this.#options.metrics.auditAttemptsDropped.inc(this.#batches.shift()?.length ?? 0);
  }
}
