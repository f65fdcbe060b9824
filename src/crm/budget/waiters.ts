import { monotonicMs } from '../../platform/base/chance.ts';
import { FairQueue } from '../../platform/base/fair-queue.ts';
import { Allowance } from './allowance.ts';
import type { BudgetLimits } from './bucket.ts';
import type { CallShares, Requests } from './call-shares.ts';

/** What a call is for. `poll`: the reader of changes, which may fall behind but must not stop. */
export type CallKind = 'write' | 'read' | 'poll';

/** The part of the rate that polls have whatever else waits, and how many calls of it may come together. */
export const pollShare = 0.1;
const mostPolls = 5;

/** One that waits for a call. Leaving, or becoming a write, changes nothing once it has got one or has left. */
interface Waiter {
  becomeWrite(): void;
  leave(): void;
}

/** One call in so many goes to the next tenant in rotation, so that no tenant starves. */
const callsPerRotation = 25;
/**
 * Writes go before reads unless the readers' credit exceeds the writers' by more than this; while reads go first, the
 * reverse.
 */
const mostBehind = 2;
/** Credits that differ by less are the same. */
const tolerance = 1e-9;

/** Parts of a Composite call that may be queries and Collections calls (REST Developer Guide, Composite). */
export const mostHeavyParts = 5;

/** Who waits for a call: between whom calls alternate, and for whom the call is, as long as it waits. */
export interface Who {
  tenant: string;
  /** Queries and Collections calls that it adds to a call that several share; 0 or none: it has a call to itself. */
  heavyParts?: number;
  requesters: () => Requests;
}

/** The consumer of a request, and what it would wait for. */
export type NewRequest = Pick<Who, 'tenant' | 'heavyParts'> & { consumer: string };

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
export class Waiters {
  readonly #queues = {
    write: new FairQueue<Entry>(),
    read: new FairQueue<Entry>(),
    poll: new FairQueue<Entry>(),
  };
  /** The share of polls. */
  readonly #polls: Allowance;
  /** A write that has waited for so long must not wait for another call. */
  readonly #urgentMs: number;
  /** The last call went to a poll, and none to a write since. */
  #wasPoll = false;
  /** The next calls go to reads, although writes wait. */
  #readsFirst = 0;
  /** Calls since one went to the next tenant in rotation. */
  #sinceRotation = 0;
  readonly #shares: CallShares;

  constructor({ rate, maxWaitMs }: Pick<BudgetLimits, 'rate' | 'maxWaitMs'>, shares: CallShares) {
    this.#shares = shares;
    this.#polls = new Allowance(rate * pollShare, mostPolls);
    // Where calls are further apart than the maximum wait, each write would be urgent and polls would never have a call.
    const urgentMs = maxWaitMs - 1 / rate;
    this.#urgentMs = urgentMs > 0 ? urgentMs : Number.POSITIVE_INFINITY;
  }

  get size(): number {
    const { write, read, poll } = this.#queues;
    return write.size + read.size + poll.size;
  }

  /** `take` is called when there is a call for it. */
  add(kind: CallKind, { tenant, heavyParts = 0, requesters }: Who, since: number, take: () => void): Waiter {
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

  /** How many of them are served before one that comes now, of the consumer where that is given. */
  before(kind: CallKind, who?: NewRequest): number {
    const { write, read } = this.#queues;
    const all = callsFor([...write, ...(kind === 'write' ? [] : read)], who?.heavyParts ?? 0);
    if (who === undefined || all === 0) return all;
    const others = (kind === 'write' ? write : read).countOf(who.tenant);
    return Math.min(all, Math.max(others, Math.ceil(this.#shares.callsUntil(who.consumer, others)) - 1));
  }

  /** The next so many calls go to reads, although writes wait. */
  serveReadsFirst(count: number): void {
    this.#readsFirst = count;
  }

  /** The calls to take from the bucket. Polls beyond their share are reads, and only while there are plenty of calls. */
  wanted(isPlenty: boolean) {
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

  /** While calls are short, the tenant with the most credit; now and then, and while calls are plenty, the next in rotation. */
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
      const credit = this.#shares.creditOf(requesters());
      if (most === undefined || credit > most.credit + tolerance) most = { tenant, credit };
    }
    return most;
  }

  /** Polls alternate with writes, unless a write would be refused for that. */
  #mayPoll(): boolean {
    const { write, poll } = this.#queues;
    const writeWaitedMs = monotonicMs() - Math.min(...[...write].map(({ since }) => since));
    return poll.size > 0 && (write.size === 0 || (!this.#wasPoll && writeWaitedMs < this.#urgentMs));
  }
}

/** Calls that these entries need before a new entry gets one; it may share the last of them. */
function callsFor(entries: readonly Entry[], heavyParts: number): number {
  const alone = entries.filter((entry) => entry.heavyParts === 0).length;
  const taken = entries.reduce((sum, entry) => sum + entry.heavyParts, heavyParts);
  return alone + Math.ceil(taken / mostHeavyParts) - (heavyParts > 0 ? 1 : 0);
}
