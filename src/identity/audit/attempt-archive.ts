import { hash } from 'node:crypto';
import { WriteBehind } from '../../platform/base/batching.ts';
import { monotonicMs, randomBytes } from '../../platform/base/chance.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { networkOf } from '../../platform/base/networks.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { type Attempt, type AttemptRecorder, createAttemptIds } from './attempt.ts';
import type { AttemptTable, StoredAttempt } from './attempt-table.ts';
import { AttemptTotals } from './attempt-totals.ts';

interface Rate {
  burst: number;
  perSecond: number;
}

const ofOne: Rate = { burst: 5000, perSecond: 1 };
const ofAll: Rate = { burst: 20_000, perSecond: 2 };
const mostOwners = 10_000;

interface Left {
  entries: number;
  /** By `monotonicMs()`. */
  at: number;
}

/**
 * Which attempts are stored one by one: of each consumer or network a burst of 5,000 and one a second, of all together 20,000 and
 * two a second. So the table grows by a known amount, however many requests come.
 */
export class OwnEntries {
  readonly #all: Left = full(ofAll);
  readonly #owners = new Map<string, Left>();

  take(owner: string): boolean {
    const own = this.#owners.get(owner) ?? this.#begin(owner);
    if (!hasOne(own, ofOne) || !hasOne(this.#all, ofAll)) return false;
    own.entries -= 1;
    this.#all.entries -= 1;
    return true;
  }

  #begin(owner: string): Left {
    const own = full(ofOne);
    this.#owners.set(owner, own);
    forgetOldest(this.#owners, mostOwners);
    return own;
  }
}

function full({ burst }: Rate): Left {
  return { entries: burst, at: monotonicMs() };
}

function hasOne(left: Left, { burst, perSecond }: Rate): boolean {
  const at = monotonicMs();
  left.entries = Math.min(burst, left.entries + ((at - left.at) / 1000) * perSecond);
  left.at = at;
  return left.entries >= 1;
}

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
  readonly #key = randomBytes(32).toString('base64');
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
      const message = "couldn't write authentication attempts to the database";
      this.#options.log.error({ err, attempts }, message);
    });
  }

  /** All that alike attempts have in common. Nobody can find the person in it: the key is known nowhere else. */
  #kindOf({ consumer_id, endpoint, result, address, api_key, person, status }: Attempt): string {
    const parts = JSON.stringify([consumer_id, endpoint, result, address, api_key, person, status]);
    return hash('sha256', this.#key + parts, 'base64url').slice(0, 24);
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
