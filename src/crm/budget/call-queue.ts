import { monotonicMs } from '../../platform/base/chance.ts';
import { FairQueue } from '../../platform/base/concurrency.ts';
import { Allowance } from './allowance.ts';
import type { BudgetLimits } from './bucket.ts';

export const mostHeavyParts = 5;

export type Requests = Iterable<readonly [consumer: string, requests: number]>;

export type ShareOf = (consumer: string) => number;

/** `poll`: the reader of changes, which may fall behind but must not stop. */
export type CallKind = 'write' | 'read' | 'poll';

export const pollShare = 0.1;
const mostPolls = 5;

/** One call in this many goes to the next tenant in rotation, so that no tenant starves. */
const callsPerRotation = 25;
/**
 * Writes go before reads unless the readers' credit exceeds the writers' by more than this; while reads go first, the
 * reverse.
 */
const mostBehind = 2;
/** Credits that differ by less are the same. */
const tolerance = 1e-9;

export interface Who {
  tenant: string;
  heavyParts?: number;
  requesters: () => Requests;
}

export type NewRequest = Pick<Who, 'tenant' | 'heavyParts'> & { consumer: string };

/** Bound of a consumer's credit, in calls, both ways. */
const mostCalls = 10;
const forgottenMs = 60_000;
/**
 * After its last request a consumer takes part in the division for as long as two calls take to become available, at most
 * this long and at least the maximum wait.
 */
const longestAskingMs = 30_000;

interface Entry {
  heavyParts: number;
  requesters: Who['requesters'];
  take: () => void;
  since: number;
}

/**
 * The requests of this replica that wait for a call, in the order in which they get one: polls within their share, then
 * writes, then reads. Within each of these the consumer with the most credit comes first, then the next tenant in
 * rotation. Times are by `monotonicMs()`.
 */
export class CallQueue {
  readonly #queues = {
    write: new FairQueue<Entry>(),
    read: new FairQueue<Entry>(),
    poll: new FairQueue<Entry>(),
  };
  readonly #polls: Allowance;
  readonly #urgentMs: number;
  #wasPoll = false;
  #readsFirst = 0;
  #sinceRotation = 0;
  readonly shares: CallShares;

  constructor({ rate, maxWaitMs }: Pick<BudgetLimits, 'rate' | 'maxWaitMs'>, shareOf: ShareOf) {
    this.shares = new CallShares(shareOf, Math.max(maxWaitMs, Math.min(longestAskingMs, 2 / rate)));
    this.#polls = new Allowance(rate * pollShare, mostPolls);
    // Where calls are further apart than the maximum wait, each write would be urgent and polls would never have a call.
    const urgentMs = maxWaitMs - 1 / rate;
    this.#urgentMs = urgentMs > 0 ? urgentMs : Number.POSITIVE_INFINITY;
  }

  get size(): number {
    const { write, read, poll } = this.#queues;
    return write.size + read.size + poll.size;
  }

  add(kind: CallKind, { tenant, heavyParts = 0, requesters }: Who, since: number, take: () => void) {
    let queue: FairQueue<Entry> | undefined = this.#queues[kind];
    const leave = () => {
      queue?.delete(tenant, entry);
      queue = undefined;
    };
    const entry = {
      heavyParts,
      requesters,
      since,
      take() {
        queue = undefined;
        take();
      },
    };
    queue.add(tenant, entry);
    return {
      leave,
      becomeWrite: () => {
        if (queue === undefined || queue === this.#queues.write) return;
        leave();
        queue = this.#queues.write;
        queue.add(tenant, entry);
      },
    };
  }

  before(kind: CallKind, who?: NewRequest): number {
    const { write, read } = this.#queues;
    const all = callsFor([...write, ...(kind === 'write' ? [] : read)], who?.heavyParts ?? 0);
    if (who === undefined || all === 0) return all;
    const others = (kind === 'write' ? write : read).countOf(who.tenant);
    return Math.min(all, Math.max(others, Math.ceil(this.shares.callsUntil(who.consumer, others)) - 1));
  }

  serveReadsFirst(count: number): void {
    this.#readsFirst = count;
  }

  demand(isPlenty: boolean) {
    const { write, read, poll } = this.#queues;
    const polls = Math.min(poll.size, Math.floor(this.#polls.available));
    const since = [...write].map((entry) => entry.since);
    return {
      polls,
      writes: write.size,
      reads: read.size + (isPlenty ? poll.size - polls : 0),
      writeSince: since.length === 0 ? undefined : Math.min(...since),
    };
  }

  /** Milliseconds until a poll may have a call, where only polls wait. */
  untilPollMs(): number {
    const { write, read, poll } = this.#queues;
    if (poll.size === 0 || write.size + read.size > 0) return 0;
    return Math.max(0, 1 - this.#polls.available) / this.#polls.rate;
  }

  /** Removes the next one and returns what takes a call for it; undefined where nobody may have one. */
  next(isPlenty: boolean): (() => void) | undefined {
    const { write, read, poll } = this.#queues;
    if (this.#mayPoll() && this.#polls.take()) return this.#nextPoll()?.take;
    const isReadFirst = this.#isReadFirst();
    if (isReadFirst) this.#noteRead();
    else this.#wasPoll = false;
    const queues = [isReadFirst ? read : write, read, ...(isPlenty ? [poll] : [])];
    const queue = queues.find(({ size }) => size > 0);
    return queue && this.#nextOf(queue, isPlenty)?.take;
  }

  #nextOf(queue: FairQueue<Entry>, isPlenty: boolean): Entry | undefined {
    if (isPlenty) return queue.next();
    this.#sinceRotation = (this.#sinceRotation + 1) % callsPerRotation;
    const next = this.#sinceRotation === 0 ? undefined : this.#neediest(queue)?.tenant;
    return queue.next(undefined, (tenant) => next === undefined || tenant === next);
  }

  #nextPoll(): Entry | undefined {
    this.#wasPoll = true;
    // The call may have been meant for a read: then the next write is served before that read.
    this.#noteRead();
    return this.#queues.poll.next();
  }

  #noteRead(): void {
    this.#readsFirst = Math.max(0, this.#readsFirst - 1);
  }

  #isReadFirst(): boolean {
    const { write, read } = this.#queues;
    if (read.size === 0 || write.size === 0) return this.#readsFirst > 0 && read.size > 0;
    const behind = (this.#neediest(read)?.credit ?? 0) - (this.#neediest(write)?.credit ?? 0);
    return this.#readsFirst > 0 ? behind >= -mostBehind : behind > mostBehind;
  }

  #neediest(queue: FairQueue<Entry>): { tenant: string; credit: number } | undefined {
    let most: { tenant: string; credit: number } | undefined;
    for (const [tenant, { requesters }] of queue.heads()) {
      const credit = this.shares.creditOf(requesters());
      if (most === undefined || credit > most.credit + tolerance) most = { tenant, credit };
    }
    return most;
  }

  #mayPoll(): boolean {
    const { write, poll } = this.#queues;
    const writeWaitedMs = monotonicMs() - Math.min(...[...write].map(({ since }) => since));
    return poll.size > 0 && (write.size === 0 || (!this.#wasPoll && writeWaitedMs < this.#urgentMs));
  }
}

function callsFor(entries: readonly Entry[], heavyParts: number): number {
  const alone = entries.filter((entry) => entry.heavyParts === 0).length;
  const taken = entries.reduce((sum, entry) => sum + entry.heavyParts, heavyParts);
  return alone + Math.ceil(taken / mostHeavyParts) - (heavyParts > 0 ? 1 : 0);
}

interface Account {
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
  readonly #askingMs: number;
  readonly #accounts = new Map<string, Account>();

  constructor(shareOf: ShareOf, askingMs: number) {
    this.#shareOf = shareOf;
    this.#askingMs = askingMs;
  }

  asks(consumer: string): void {
    this.#accountOf(consumer).askedAt = monotonicMs();
  }

  charge(requests: Requests): void {
    for (const [consumer, part] of this.parts()) this.#add(consumer, part);
    const all = [...requests];
    const total = all.reduce((sum, [, count]) => sum + count, 0);
    for (const [consumer, count] of all) this.#add(consumer, -count / total);
  }

  creditOf(requests: Requests): number {
    let [credit, total] = [0, 0];
    for (const [consumer, count] of requests) {
      credit += count * (this.#accounts.get(consumer)?.credit ?? 0);
      total += count;
    }
    return total === 0 ? 0 : credit / total;
  }

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
