import type { Attempt } from './attempt.ts';
import type { StoredAttempt, StoredTotal } from './attempt-table.ts';

/** Sums that are held by network; beyond that, one sum for each minute and result counts all others. Some 8 MB. */
const maxByNetwork = 10_000;
/** Sums that are held at all: they accumulate only while the database is unavailable. */
const maxTotals = 11_000;

interface Total {
  first: StoredAttempt;
  minute: string;
  network: string | null;
  count: number;
  /** Of `count`, what the database has. */
  stored: number;
}

/** Adds up attempts by network, minute and result, in bounded memory however many addresses there are. */
export class AttemptTotals {
  readonly #newId: (timestamp: string) => string;
  readonly #dropped: (attempts: number) => void;
  /** Oldest first. */
  readonly #totals = new Map<string, Total>();

  constructor(newId: (timestamp: string) => string, dropped: (attempts: number) => void) {
    this.#newId = newId;
    this.#dropped = dropped;
  }

  /** Sums that are held. */
  get size(): number {
    return this.#totals.size;
  }

  /** Attempts that the database does not have yet. */
  get unstoredAttempts(): number {
    return this.#totals.values().reduce((sum, { count, stored }) => sum + count - stored, 0);
  }

  add(attempt: Attempt, network: string): void {
    const minute = minuteOf(attempt.timestamp);
    const found =
      this.#totals.get(keyOf(minute, attempt, network)) ??
      (this.#totals.size < maxByNetwork
        ? this.#begin(minute, attempt, network)
        : (this.#totals.get(keyOf(minute, attempt, null)) ?? this.#begin(minute, attempt, null)));
    found.count += 1;
  }

  /**
   * The sums that have grown since they were stored, in an order that is the same for all replicas: two that update the
   * same rows must not wait for each other. Those of past minutes that are stored are forgotten.
   */
  unstored(): StoredTotal[] {
    const now = minuteOf(new Date().toISOString());
    const unstored: StoredTotal[] = [];
    for (const [key, { first, minute, network, count, stored }] of this.#totals) {
      if (count > stored) unstored.push({ ...first, minute, network, count });
      else if (minute < now) this.#totals.delete(key);
    }
    return unstored.sort((a, b) => (keyOf(a.minute, a, a.network) < keyOf(b.minute, b, b.network) ? -1 : 1));
  }

  /** The database has these. */
  markStored(totals: readonly StoredTotal[]): void {
    for (const { id, minute, result, network, count } of totals) {
      const total = this.#totals.get(keyOf(minute, { result }, network));
      if (total?.first.id === id) total.stored = count;
    }
  }

  #begin(minute: string, attempt: Attempt, network: string | null): Total {
    const first = { id: this.#newId(attempt.timestamp), ...attempt };
    if (network === null) first.address = null;
    const total = { first, minute, network, count: 0, stored: 0 };
    this.#totals.set(keyOf(minute, attempt, network), total);
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

/** No network is empty. */
function keyOf(minute: string, { result }: Pick<Attempt, 'result'>, network: string | null): string {
  return `${minute} ${result} ${network ?? ''}`;
}
