import { FairQueue } from '../../platform/base/fair-queue.ts';
import type { BudgetLimits } from './bucket.ts';

/** What a call is for. `poll`: the reader of changes, which may fall behind but must not stop. */
export type CallKind = 'write' | 'read' | 'poll';

/** The part of the rate that polls have whatever else waits, and how many calls of it come together. */
export const pollShare = 0.1;
const mostPolls = 5;

/** The place of one that waits. */
export interface Place {
  becomeWrite(): void;
  leave(): void;
}

interface Waiter {
  take: () => void;
  since: number;
}

/**
 * Who waits for a call, in the order in which they get one: polls as far as their share goes, writes, all others. In each
 * of these lines tenants take turns. Times are by `performance.now()`.
 */
export class Waiters {
  readonly #lines = {
    write: new FairQueue<Waiter>(),
    read: new FairQueue<Waiter>(),
    poll: new FairQueue<Waiter>(),
  };
  /** Calls a millisecond that polls may make. */
  readonly #pollRate: number;
  /** A write that has waited for so long must not wait for another call. */
  readonly #urgentMs: number;
  #polls = { calls: mostPolls, at: performance.now() };
  /** No write has had a call since a poll had one. */
  #wasPoll = false;
  /** Reads that go before writes. */
  #readTurns = 0;

  constructor({ rate, maxWaitMs }: Pick<BudgetLimits, 'rate' | 'maxWaitMs'>) {
    this.#pollRate = rate * pollShare;
    // Where calls come more rarely, polls must not wait for ever.
    const urgentMs = maxWaitMs - 1 / rate;
    this.#urgentMs = urgentMs > 0 ? urgentMs : Number.POSITIVE_INFINITY;
  }

  get size(): number {
    const { write, read, poll } = this.#lines;
    return write.size + read.size + poll.size;
  }

  add(kind: CallKind, tenant: string, since: number, take: () => void): Place {
    const waiter = { take, since };
    let line = this.#lines[kind];
    line.add(tenant, waiter);
    return {
      becomeWrite: () => {
        // One that is in that line keeps its place.
        if (line === this.#lines.write) return;
        line.delete(tenant, waiter);
        line = this.#lines.write;
        line.add(tenant, waiter);
      },
      leave: () => line.delete(tenant, waiter),
    };
  }

  /** How many of them are served before one that comes now. */
  before(kind: CallKind): number {
    return this.#lines.write.size + (kind === 'write' ? 0 : this.#lines.read.size);
  }

  /** So many reads go before writes. */
  turnOfReads(count: number): void {
    this.#readTurns = count;
  }

  /** What to ask for. Polls beyond their share go where there are plenty of calls. */
  wanted(isPlenty: boolean): { writes: number; reads: number; writeSince: number | undefined } {
    const { write, read, poll } = this.#lines;
    const due = Math.min(poll.size, Math.floor(this.#pollCalls()));
    const since = [...write, ...(due > 0 ? poll : [])].map((waiter) => waiter.since);
    return {
      writes: write.size + due,
      reads: read.size + (isPlenty ? poll.size - due : 0),
      writeSince: since.length === 0 ? undefined : Math.min(...since),
    };
  }

  /** Milliseconds until a poll may have a call, where only polls wait. */
  untilPollMs(): number {
    const { write, read, poll } = this.#lines;
    if (poll.size === 0 || write.size + read.size > 0) return 0;
    return Math.max(0, 1 - this.#pollCalls()) / this.#pollRate;
  }

  /** The next one is out of line, and to be called; undefined where nobody may have a call. */
  next(isPlenty: boolean): (() => void) | undefined {
    const { write, read, poll } = this.#lines;
    if (this.#isPollsTurn() && this.#spendOnPoll()) {
      this.#wasPoll = true;
      // It may have the call of a read, which then goes after the next write.
      this.#readTurns = Math.max(0, this.#readTurns - 1);
      return poll.next()?.take;
    }
    const isReadsTurn = this.#readTurns > 0 && read.size > 0;
    if (isReadsTurn) this.#readTurns -= 1;
    else this.#wasPoll = false;
    const lines = [isReadsTurn ? read : write, read, ...(isPlenty ? [poll] : [])];
    return lines.find(({ size }) => size > 0)?.next()?.take;
  }

  /** The calls of one poll take turns with writes, which would else wait for all of them, and for some in vain. */
  #isPollsTurn(): boolean {
    const { write, poll } = this.#lines;
    const writeWaitedMs = performance.now() - Math.min(...[...write].map(({ since }) => since));
    return poll.size > 0 && (write.size === 0 || (!this.#wasPoll && writeWaitedMs < this.#urgentMs));
  }

  #spendOnPoll(): boolean {
    const calls = this.#pollCalls();
    if (calls < 1) return false;
    this.#polls = { calls: calls - 1, at: performance.now() };
    return true;
  }

  #pollCalls(): number {
    const { calls, at } = this.#polls;
    return Math.min(mostPolls, calls + (performance.now() - at) * this.#pollRate);
  }
}
