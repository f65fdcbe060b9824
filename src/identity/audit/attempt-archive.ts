import { hash } from 'node:crypto';
import { WriteBehind } from '../../platform/base/batching.ts';
import { monotonicMs, randomBytes, wallMs } from '../../platform/base/chance.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { networkOf } from '../../platform/base/networks.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { type Attempt, type AttemptRecorder, type AttemptSum, createAttemptIds } from './attempt.ts';
import type { AttemptTable, StoredAttempt, StoredTotal } from './attempt-table.ts';

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

/** Sums that are held by network or kind; beyond that, one sum for each minute and result counts all others. Some 8 MB. */
const maxNamed = 10_000;
/** Sums that are held at all: they accumulate only while the database is unavailable. */
const maxTotals = 11_000;

interface Total extends Pick<StoredTotal, 'minute' | 'by' | 'name' | 'count'> {
  first: StoredAttempt;
  stored: number;
}

class AttemptTotals {
  readonly #newId: (timestamp: string) => string;
  readonly #dropped: (attempts: number) => void;
  readonly #totals = new Map<string, Total>();

  constructor(newId: (timestamp: string) => string, dropped: (attempts: number) => void) {
    this.#newId = newId;
    this.#dropped = dropped;
  }

  get unstoredAttempts(): number {
    return this.#totals.values().reduce((sum, { count, stored }) => sum + count - stored, 0);
  }

  add(attempt: Attempt, { by, name }: AttemptSum): void {
    const { result } = attempt;
    const minute = minuteOf(attempt.timestamp);
    const key = { minute, result, by, name };
    // A row names one consumer, as far as it is known.
    const others = { minute, result, by, name: by === 'alike' ? attempt.consumer_id : null };
    // Consumers are known and few; anybody can come from many networks.
    const hasCapacity = by === 'consumer' || this.#totals.size < maxNamed;
    const found =
      this.#totals.get(totalKeyOf(key)) ??
      (hasCapacity
        ? this.#begin(key, attempt)
        : (this.#totals.get(totalKeyOf(others)) ?? this.#begin(others, { ...attempt, address: null })));
    found.count += 1;
  }

  /**
   * The sums that have grown since they were stored, in an order that is the same for all replicas: two that update the
   * same rows must not wait for each other. Those of past minutes that are stored are forgotten.
   */
  unstored(): StoredTotal[] {
    const now = minuteOf(new Date(wallMs()).toISOString());
    const unstored: StoredTotal[] = [];
    for (const [key, { first, minute, by, name, count, stored }] of this.#totals) {
      if (count > stored) unstored.push({ ...first, minute, by, name, count });
      else if (minute < now) this.#totals.delete(key);
    }
    return unstored.sort((a, b) => (totalKeyOf(a) < totalKeyOf(b) ? -1 : 1));
  }

  markStored(stored: readonly StoredTotal[]): void {
    for (const one of stored) {
      const total = this.#totals.get(totalKeyOf(one));
      if (total?.first.id === one.id) total.stored = one.count;
    }
  }

  #begin(key: TotalKey, attempt: Attempt): Total {
    const { minute, by, name } = key;
    const first = { id: this.#newId(attempt.timestamp), ...attempt };
    const total = { first, minute, by, name, count: 0, stored: 0 };
    this.#totals.set(totalKeyOf(key), total);
    if (this.#totals.size > maxTotals) this.#dropOldest();
    return total;
  }

  #dropOldest(): void {
    for (const [key, { count, stored }] of this.#totals) {
      this.#totals.delete(key);
      return this.#dropped(count - stored);
    }
  }
}

/** The start of the minute, RFC 3339 UTC. */
function minuteOf(timestamp: string): string {
  return `${timestamp.slice(0, 'yyyy-mm-ddThh:mm'.length)}:00.000Z`;
}

type TotalKey = Pick<StoredTotal, 'minute' | 'result' | 'by' | 'name'>;

function totalKeyOf({ minute, result, by, name }: TotalKey): string {
  return `${minute} ${result} ${by} ${name ?? ''}`;
}
