import { type Call, remainingMs } from '../../platform/base/call.ts';
import { now } from '../../platform/base/clock.ts';
import { FairQueue } from '../../platform/base/fair-queue.ts';
import type { CallBudget, CallWait, PaidCall } from '../budget/call-budget.ts';
import type { CallKind } from '../budget/waiters.ts';
import { CrmFailure, queueFull } from '../rest/failure.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { returnMs } from './forwarded-batches.ts';
import type { Operation } from './operation.ts';
import { isWrite, type Pending } from './pending.ts';

/** Bytes in one call. The CRM documents no limit of a body; an answer of the same size must fit into memory too. */
const mostBytes = 3 * 1024 * 1024;
/** The same for requests that join a call of another replica, through the shared cache. */
const mostForwardedBytes = 256 * 1024;
/** A request that has reached its maximum wait while no call of the budget was waited for is looked at so often. */
const shortestWaitMs = 50;

export interface RequestQueueOptions<Item, Result> {
  name: string;
  operation: Pick<Operation<Item, Result>, 'effect' | 'size'>;
  client: Pick<CrmClient, 'budget' | 'shortestCallMs'>;
  /** The longest that a call may take. */
  timeoutMs: number;
}

/**
 * The requests of one batcher that wait for a call, in the order in which they get one: where there is a budget, look-ups
 * that a write begins with; other requests; background work. Where there is a budget, the queue also waits for a call of
 * it, and refuses requests that wait longer than the maximum.
 */
export class RequestQueue<Item, Result> {
  readonly #options: RequestQueueOptions<Item, Result>;
  readonly #urgent = new FairQueue<Pending<Item, Result>>();
  readonly #requests = new FairQueue<Pending<Item, Result>>();
  readonly #background = new FairQueue<Pending<Item, Result>>();
  /** The wait for a call of the budget. */
  #callWait: CallWait | undefined;

  constructor(options: RequestQueueOptions<Item, Result>) {
    this.#options = options;
    options.client.budget?.stopping?.addEventListener('abort', () => {
      for (const pending of this.#background) this.#arm(pending);
    });
  }

  /** Requests that wait, background work left out. */
  get requests(): number {
    return this.#urgent.size + this.#requests.size;
  }

  /** All that waits. */
  get size(): number {
    return this.requests + this.#background.size;
  }

  /**
   * Refuses a request that would wait in vain for a call of the budget. `perCall`: requests that go into one call. `joins`:
   * a call is waited for already. Throws `CrmFailure` (budget_exhausted).
   */
  check(call: Call, { perCall, joins }: { perCall: number; joins: boolean }): void {
    const { budget } = this.#options.client;
    if (budget === undefined || call.background !== undefined) return;
    // As many wait on each of the other replicas, and share the same calls.
    const further = Math.floor((this.requests * budget.replicas) / perCall);
    budget.check(this.#kindOf(call), { joins, further });
  }

  add(pending: Pending<Item, Result>): void {
    this.#queueOf(pending.call).add(pending.tenant, pending);
    this.#arm(pending);
    if (pending.call.background === undefined && this.#kindOf(pending.call) === 'write')
      this.#callWait?.becomeWrite();
  }

  /** Waits for a call of the budget; undefined where nothing waits any more. */
  async waitForCall(budget: CallBudget): Promise<PaidCall | undefined> {
    const { name, operation } = this.#options;
    let paid: PaidCall | undefined;
    while (paid === undefined && this.size > 0) {
      const isForWrite = this.#urgent.size > 0 || (operation.effect !== 'read' && this.#requests.size > 0);
      this.#callWait = budget.wait(isForWrite ? 'write' : 'read', name);
      paid = await this.#callWait.paid;
      this.#callWait = undefined;
    }
    return paid;
  }

  /** Removes a batch of at most `most` requests. `isForwarded`: it joins a call of another replica; background work does not. */
  take(most: number, { isForwarded = false } = {}): Pending<Item, Result>[] {
    const { client, timeoutMs } = this.#options;
    const queues = [this.#urgent, this.#requests, ...(isForwarded ? [] : [this.#background])];
    const bytesAtMost = isForwarded ? mostForwardedBytes : mostBytes;
    // The other replica needs the time for a call after it has received them and before it answers.
    const enoughMs = client.shortestCallMs + (isForwarded ? 2 * returnMs : 0);
    const batch: Pending<Item, Result>[] = [];
    const time = now();
    let bytes = 0;
    const fits = ({ item, call }: Pending<Item, Result>): boolean => {
      const leftMs = remainingMs(call, time);
      if (isForwarded && leftMs < enoughMs) return false;
      const [first] = batch;
      // A call ends at the earliest deadline of its requests: one with little time must not shorten that of others.
      if (first !== undefined && remainingMs(first.call, time) >= timeoutMs !== leftMs >= timeoutMs)
        return false;
      const bytesWithIt = bytes + this.#sizeOf(item, isForwarded);
      // A single item is sent whatever its size, but only in a call of this replica.
      const isFirst = first === undefined && !isForwarded;
      if (!isFirst && (batch.length >= most || bytesWithIt > bytesAtMost)) return false;
      bytes = bytesWithIt;
      return true;
    };
    for (let next = nextOf(queues, fits); next; next = nextOf(queues, fits)) {
      clearTimeout(next.expiry);
      next.leaveQueue();
      if (remainingMs(next.call, time) >= enoughMs) batch.push(next);
      else next.reject(new CrmFailure('late', 'no time was left for the call'));
    }
    this.#stopIfEmpty();
    return batch;
  }

  #sizeOf(item: Item, isForwarded: boolean): number {
    return isForwarded ? Buffer.byteLength(JSON.stringify(item)) : this.#options.operation.size(item);
  }

  #kindOf(call: Call): CallKind {
    return isWrite(this.#options.operation, call) ? 'write' : 'read';
  }

  #queueOf(call: Call): FairQueue<Pending<Item, Result>> {
    if (call.background !== undefined) return this.#background;
    const { client, operation } = this.#options;
    const isUrgent = client.budget !== undefined && operation.effect === 'read' && call.isWrite === true;
    return isUrgent ? this.#urgent : this.#requests;
  }

  /** Sets the timer of its maximum wait, or of the end of its time. */
  #arm(pending: Pending<Item, Result>): void {
    const leftMs = this.#maxWaitOf(pending.call) - (performance.now() - pending.since);
    clearTimeout(pending.expiry);
    pending.expiry = setTimeout(
      () => this.#expire(pending),
      Math.min(Math.max(shortestWaitMs, leftMs), remainingMs(pending.call)),
    );
  }

  #maxWaitOf({ background }: Call): number {
    const { budget } = this.#options.client;
    if (budget === undefined) return Number.POSITIVE_INFINITY;
    if (background === undefined) return budget.maxWaitMs;
    // When the service stops, it waits in the database only.
    return budget.stopping?.aborted ? 0 : Number.POSITIVE_INFINITY;
  }

  #expire(pending: Pending<Item, Result>): void {
    const { call } = pending;
    const budget = this.#callWait && this.#options.client.budget;
    // The maximum wait is for a call of the budget; it does not apply where the CRM is what takes long.
    if (budget === undefined && remainingMs(call) > 0) {
      this.#arm(pending);
      return;
    }
    this.#queueOf(call).delete(pending.tenant, pending);
    pending.leaveQueue();
    const isCounted = call.background === undefined;
    pending.reject(budget?.waitedTooLong(this.#kindOf(call), isCounted) ?? queueFull());
    this.#stopIfEmpty();
  }

  #stopIfEmpty(): void {
    if (this.size === 0) this.#callWait?.giveUp();
  }
}

function nextOf<T>(queues: readonly FairQueue<T>[], fits: (value: T) => boolean): T | undefined {
  for (const queue of queues) {
    const next = queue.next(fits);
    if (next !== undefined) return next;
  }
  return undefined;
}
