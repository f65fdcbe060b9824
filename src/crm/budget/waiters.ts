import { FairQueue } from '../../platform/base/fair-queue.ts';
import { Allowance } from './allowance.ts';
import type { BudgetLimits } from './bucket.ts';

/** What a call is for. `poll`: the reader of changes, which may fall behind but must not stop. */
export type CallKind = 'write' | 'read' | 'poll';

/** The part of the rate that polls have whatever else waits, and how many calls of it may come together. */
export const pollShare = 0.1;
const mostPolls = 5;

/** One that waits for a call. Leaving, or becoming a write, changes nothing once it has got one or has left. */
export interface Waiter {
  becomeWrite(): void;
  leave(): void;
}

interface Entry {
  take: () => void;
  since: number;
}

/**
 * The requests of this replica that wait for a call, in the order in which they get one: polls within their share, then
 * writes, then reads. Tenants alternate within each of these. Times are by `performance.now()`.
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

  constructor({ rate, maxWaitMs }: Pick<BudgetLimits, 'rate' | 'maxWaitMs'>) {
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
  add(kind: CallKind, tenant: string, since: number, take: () => void): Waiter {
    let queue: FairQueue<Entry> | undefined = this.#queues[kind];
    const leave = () => {
      queue?.delete(tenant, entry);
      queue = undefined;
    };
    const entry = {
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

  /** How many of them are served before one that comes now. */
  before(kind: CallKind): number {
    return this.#queues.write.size + (kind === 'write' ? 0 : this.#queues.read.size);
  }

  /** The next so many calls go to reads, although writes wait. */
  serveReadsFirst(count: number): void {
    this.#readsFirst = count;
  }

  /** The calls to take from the bucket. Polls beyond their share are reads, and only while there are plenty of calls. */
  wanted(isPlenty: boolean): { writes: number; reads: number; writeSince: number | undefined } {
    const { write, read, poll } = this.#queues;
    const due = Math.min(poll.size, Math.floor(this.#polls.available));
    const since = [...write, ...(due > 0 ? poll : [])].map((entry) => entry.since);
    return {
      writes: write.size + due,
      reads: read.size + (isPlenty ? poll.size - due : 0),
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
    if (this.#mayPoll() && this.#polls.take()) {
      this.#wasPoll = true;
      // The call may have been meant for a read: then the next write is served before that read.
      this.#readsFirst = Math.max(0, this.#readsFirst - 1);
      return poll.next()?.take;
    }
    const isReadFirst = this.#readsFirst > 0 && read.size > 0;
    if (isReadFirst) this.#readsFirst -= 1;
    else this.#wasPoll = false;
    const queues = [isReadFirst ? read : write, read, ...(isPlenty ? [poll] : [])];
    return queues.find(({ size }) => size > 0)?.next()?.take;
  }

  /** Polls alternate with writes, unless a write would be refused for that. */
  #mayPoll(): boolean {
    const { write, poll } = this.#queues;
    const writeWaitedMs = performance.now() - Math.min(...[...write].map(({ since }) => since));
    return poll.size > 0 && (write.size === 0 || (!this.#wasPoll && writeWaitedMs < this.#urgentMs));
  }
}
