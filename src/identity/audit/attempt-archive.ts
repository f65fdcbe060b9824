import { createHmac } from 'node:crypto';
import { randomBytes } from '../../platform/base/chance.ts';
import { networkOf } from '../../platform/base/networks.ts';
import { WriteBehind } from '../../platform/base/write-behind.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { type Attempt, type AttemptRecorder, createAttemptIds } from './attempt.ts';
import type { AttemptTable, StoredAttempt } from './attempt-table.ts';
import { AttemptTotals } from './attempt-totals.ts';
import { OwnEntries } from './own-entries.ts';

const batchSize = 500;
/** Attempts that wait at most, some 30 MB. */
const maxWaiting = 51_000;

export interface AttemptArchiveOptions {
  table: Pick<AttemptTable, 'add' | 'addTotals'>;
  log: Log;
  metrics: Pick<Metrics, 'auditAttemptsDropped'>;
  own?: Pick<OwnEntries, 'take'>;
}

/**
 * Writes attempts to the database in batches, each second or when there are 500. While it is unavailable, up to 50,000 are
 * kept. Those dropped beyond that are still in the log, and a metric counts them. Attempts of addresses that fail too
 * often, of consumers that are refused too often, and beyond those that `OwnEntries` allows are added up, and the sums are
 * written.
 */
export class AttemptArchive implements AttemptRecorder {
  readonly #options: AttemptArchiveOptions;
  readonly #newId = createAttemptIds();
  readonly #single: WriteBehind<StoredAttempt>;
  readonly #totals: AttemptTotals;
  readonly #key = randomBytes(32);
  readonly #own: Pick<OwnEntries, 'take'>;

  constructor(options: AttemptArchiveOptions) {
    const { table, log, metrics, own = new OwnEntries() } = options;
    const onDropped = (attempts: number) => metrics.auditAttemptsDropped.inc(attempts);
    this.#options = options;
    this.#own = own;
    this.#totals = new AttemptTotals(this.#newId, onDropped);
    this.#single = new WriteBehind({
      write: (attempts) => table.add(attempts),
      batchSize,
      most: maxWaiting,
      onDropped,
      finish: () => this.#writeTotals(),
      onFailing: (err) => log.warn({ err }, 'authentication attempts wait in memory for the database'),
      onRecovered: () => log.info({}, 'authentication attempts are written to the database again'),
    });
  }

  record(attempt: Attempt): void {
    if (attempt.sum !== undefined) return this.#totals.add(attempt, attempt.sum);
    const isOwn = this.#own.take(attempt.consumer_id ?? networkOf(attempt.address ?? ''));
    if (!isOwn) return this.#totals.add(attempt, { by: 'alike', name: this.#kindOf(attempt) });
    const id = this.#newId(attempt.timestamp);
    this.#single.add(id, { ...attempt, id });
  }

  /** Writes all that was recorded before this call. Throws what the database does; nothing is lost by that. */
  flush(): Promise<void> {
    return this.#single.flush();
  }

  async stop(): Promise<void> {
    await this.#single.stop().catch((err: unknown) => {
      const attempts = this.#single.size + this.#totals.unstoredAttempts;
      const message = 'authentication attempts could not be written to the database';
      this.#options.log.error({ err, attempts }, message);
    });
  }

  /** All that alike attempts have in common. Nobody can find the person in it: the key is known nowhere else. */
  #kindOf({ consumer_id, endpoint, result, address, api_key, person, status }: Attempt): string {
    const parts = JSON.stringify([consumer_id, endpoint, result, address, api_key, person, status]);
    return createHmac('sha256', this.#key).update(parts).digest('base64url').slice(0, 24);
  }

  async #writeTotals(): Promise<void> {
    const totals = this.#totals.unstored();
    while (totals.length > 0) {
      const some = totals.splice(0, batchSize);
      await this.#options.table.addTotals(some);
      this.#totals.markStored(some);
    }
  }
}
