import { wallMs } from '../../platform/base/chance.ts';
import type { Attempt, AttemptSum } from './attempt.ts';
import type { StoredAttempt, StoredTotal } from './attempt-table.ts';

/** Sums that are held by network or kind; beyond that, one sum for each minute and result counts all others. Some 8 MB. */
const maxNamed = 10_000;
/** Sums that are held at all: they accumulate only while the database is unavailable. */
const maxTotals = 11_000;

interface Total extends Pick<StoredTotal, 'minute' | 'by' | 'name' | 'count'> {
  first: StoredAttempt;
  stored: number;
}

export class AttemptTotals {
  readonly #newId: (timestamp: string) => string;
  readonly #dropped: (attempts: number) => void;
  readonly #totals = new Map<string, Total>();

  constructor(newId: (timestamp: string) => string, dropped: (attempts: number) => void) {
    this.#newId = newId;
    this.#dropped = dropped;
  }

  get size(): number {
    return this.#totals.size;
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
      this.#totals.get(keyOf(key)) ??
      (hasCapacity
        ? this.#begin(key, attempt)
        : (this.#totals.get(keyOf(others)) ?? this.#begin(others, { ...attempt, address: null })));
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
    return unstored.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  }

  markStored(stored: readonly StoredTotal[]): void {
    for (const one of stored) {
      const total = this.#totals.get(keyOf(one));
      if (total?.first.id === one.id) total.stored = one.count;
    }
  }

  #begin(key: Key, attempt: Attempt): Total {
    const { minute, by, name } = key;
    const first = { id: this.#newId(attempt.timestamp), ...attempt };
    const total = { first, minute, by, name, count: 0, stored: 0 };
    this.#totals.set(keyOf(key), total);
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

type Key = Pick<StoredTotal, 'minute' | 'result' | 'by' | 'name'>;

function keyOf({ minute, result, by, name }: Key): string {
  return `${minute} ${result} ${by} ${name ?? ''}`;
}
