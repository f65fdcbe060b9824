import { monotonicMs } from '../../platform/base/chance.ts';
/** A consumer's id, '' for the service itself, and how many requests of it are meant. */
export type Requests = Iterable<readonly [consumer: string, requests: number]>;

/** The part of the calls that is a consumer's own, from 0 to 1. */
export type ShareOf = (consumer: string) => number;

/** Bound of a consumer's credit, in calls, both ways. */
const mostCalls = 10;
/** After so long without a request, a consumer's credit is dropped. */
const forgottenMs = 60_000;

interface Account {
  /** Calls that it has had less than its part; below 0: more. */
  credit: number;
  /** By `monotonicMs()`. */
  askedAt: number;
}

/**
 * Divides calls while they are short. Each asking consumer has its share plus an equal part of what no share covers. Each
 * call adds that part to the credit of every asking consumer, and takes one call from those it is for, by their requests in
 * it. The consumer with the most credit is served next.
 */
export class CallShares {
  readonly #shareOf: ShareOf;
  /** A consumer without a request for this long no longer gets a part. */
  readonly #askingMs: number;
  readonly #accounts = new Map<string, Account>();

  constructor(shareOf: ShareOf, askingMs: number) {
    this.#shareOf = shareOf;
    this.#askingMs = askingMs;
  }

  /** A request came, whether or not it may wait. */
  asks(consumer: string): void {
    this.#accountOf(consumer).askedAt = monotonicMs();
  }

  /** A call was made for these while calls were short. */
  charge(requests: Requests): void {
    for (const [consumer, part] of this.parts()) this.#add(consumer, part);
    const all = [...requests];
    const total = all.reduce((sum, [, count]) => sum + count, 0);
    for (const [consumer, count] of all) this.#add(consumer, -count / total);
  }

  /** Of a call for these. */
  creditOf(requests: Requests): number {
    let [credit, total] = [0, 0];
    for (const [consumer, count] of requests) {
      credit += count * (this.#accounts.get(consumer)?.credit ?? 0);
      total += count;
    }
    return total === 0 ? 0 : credit / total;
  }

  /** The part of each who asks; together 1. */
  parts(): Map<string, number> {
    const now = monotonicMs();
    const own = new Map<string, number>();
    for (const [consumer, { askedAt }] of this.#accounts) {
      if (now - askedAt <= this.#askingMs) own.set(consumer, this.#shareOf(consumer));
      else if (now - askedAt > forgottenMs) this.#accounts.delete(consumer);
    }
    const taken = own.values().reduce((sum, share) => sum + share, 0);
    for (const [consumer, share] of own) own.set(consumer, share + Math.max(0, 1 - taken) / own.size);
    return own;
  }

  /** Calls until a request of the consumer is served behind so many others of it; Infinity where it has no part. */
  callsUntil(consumer: string, others: number): number {
    const part = this.parts().get(consumer) ?? 0;
    const lacking = others + 1 - this.creditOf([[consumer, 1]]);
    return lacking <= 0 ? 1 : Math.max(1, lacking / part);
  }

  #add(consumer: string, calls: number): void {
    const account = this.#accountOf(consumer);
    account.credit = Math.max(-mostCalls, Math.min(mostCalls, account.credit + calls));
  }

  #accountOf(consumer: string): Account {
    const account = this.#accounts.get(consumer) ?? { credit: 0, askedAt: Number.NEGATIVE_INFINITY };
    this.#accounts.set(consumer, account);
    return account;
  }
}
