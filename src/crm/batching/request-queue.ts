import { type Call, remainingMs } from '../../platform/base/call.ts';
import { clearTimeout, monotonicMs, now, setTimeout } from '../../platform/base/chance.ts';
import { FairQueue } from '../../platform/base/fair-queue.ts';
import type { CallBudget, CallWait, PaidCall } from '../budget/call-budget.ts';
import type { CallKind } from '../budget/waiters.ts';
import { CrmFailure, queueFull } from '../rest/failure.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { returnMs } from './forwarded-batches.ts';
import { type Capacity, heavyPartsOf, type MixedKind } from './mixing.ts';
import { mostBytes } from './object-size.ts';
import type { Operation } from './operation.ts';
import { isWrite, type Pending } from './pending.ts';

/** Bytes of requests that join another replica's call, which travel through the shared cache. */
const mostForwardedBytes = 256 * 1024;
/** How often a request past its maximum wait is checked while it does not wait for the budget. */
const recheckMs = 50;

interface RequestQueueOptions<Item, Result> {
  name: string;
  operation: Pick<Operation<Item, Result>, 'effect' | 'size'>;
  client: Pick<CrmClient, 'budget' | 'shortestCallMs'>;
  /** The longest that a call may take. */
  timeoutMs: number;
  /** What its batches take in a call that several kinds share; undefined where they have calls of their own. */
  mixedKind?: MixedKind | undefined;
}

/** How a batch is taken that joins another call. */
interface Joining {
  /** A call of another replica; background work does not. */
  isForwarded?: boolean;
  /** A call of another batcher, which it must not shorten. */
  capacity?: Capacity;
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
  /** Calls of the budget were short when the last one came. */
  #wasShort = false;

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
    const who = { ...this.#who, consumer: call.consumerId ?? '' };
    budget.check(this.#kindOf(call), who, { joins, further });
  }

  add(pending: Pending<Item, Result>): void {
    this.#queueOf(pending.call).add(pending.tenant, pending);
    this.#arm(pending);
    if (pending.call.background === undefined && this.#kindOf(pending.call) === 'write')
      this.#callWait?.becomeWrite();
  }

  /** Waits for a call of the budget; undefined where nothing waits any more. */
  async waitForCall(budget: CallBudget): Promise<PaidCall | undefined> {
    const { operation } = this.#options;
    let paid: PaidCall | undefined;
    while (paid === undefined && this.size > 0) {
      const isForWrite = this.#urgent.size > 0 || (operation.effect !== 'read' && this.#requests.size > 0);
      this.#callWait = budget.wait(isForWrite ? 'write' : 'read', {
        ...this.#who,
        requesters: () => this.#waiting(),
      });
      paid = await this.#callWait.paid;
      this.#callWait = undefined;
      if (paid !== undefined) this.#wasShort = paid.wasShort;
    }
    return paid;
  }

  /** Removes a batch of at most `most` requests. */
  take(most: number, joining: Joining = {}): Pending<Item, Result>[] {
    const { isForwarded = false, capacity } = joining;
    const queues = [this.#urgent, this.#requests, ...(isForwarded ? [] : [this.#background])];
    const enoughMs = this.#enoughMs(joining);
    const batch: Pending<Item, Result>[] = [];
    const time = now();
    const fits = this.#fitting(batch, { ...joining, most, enoughMs, time });
    const left = this.#divide(most);
    const mayHaveNext = (tenant: string) => capacity?.division.mayHaveNext(tenant) ?? true;
    const hasLeft = (tenant: string) => (left?.get(tenant) ?? 0) > 0 && mayHaveNext(tenant);
    const takeNext = () => (left && nextOf(queues, fits, hasLeft)) ?? nextOf(queues, fits, mayHaveNext);
    for (let next = takeNext(); next; next = takeNext()) {
      left?.set(next.tenant, (left.get(next.tenant) ?? 0) - 1);
      capacity?.division.note(next.tenant);
      clearTimeout(next.expiry);
      next.leaveQueue();
      if (remainingMs(next.call, time) >= enoughMs) batch.push(next);
      else next.reject(this.#lackedCalls(next) ?? new CrmFailure('late', 'no time was left for the call'));
    }
    this.#stopIfEmpty();
    return batch;
  }

  /** Whether a request goes into the batch, which is as it is then; to be asked once for each. */
  #fitting(
    batch: readonly Pending<Item, Result>[],
    {
      isForwarded = false,
      capacity,
      most,
      enoughMs,
      time,
    }: Joining & Record<'most' | 'enoughMs' | 'time', number>,
  ): (pending: Pending<Item, Result>) => boolean {
    const { timeoutMs } = this.#options;
    const joins = isForwarded || capacity !== undefined;
    const bytesAtMost = capacity?.bytes ?? (isForwarded ? mostForwardedBytes : mostBytes);
    let bytes = 0;
    return ({ item, call }) => {
      const leftMs = remainingMs(call, time);
      if (joins && leftMs < enoughMs) return false;
      const [first] = batch;
      // A call ends at the earliest deadline of its requests: one with little time must not shorten that of others.
      if (first !== undefined && remainingMs(first.call, time) >= timeoutMs !== leftMs >= timeoutMs)
        return false;
      const bytesWithIt = bytes + this.#sizeOf(item, isForwarded);
      // A single item is sent whatever its size, but only in a call of its own batcher.
      const isFirst = first === undefined && !joins;
      if (!isFirst && (batch.length >= most || bytesWithIt > bytesAtMost)) return false;
      bytes = bytesWithIt;
      return true;
    };
  }

  /** Milliseconds that a request must have left. */
  #enoughMs({ isForwarded, capacity }: Joining): number {
    const { client, timeoutMs } = this.#options;
    if (capacity !== undefined) return timeoutMs;
    // The other replica needs the time for a call after it has received them and before it answers.
    return client.shortestCallMs + (isForwarded ? 2 * returnMs : 0);
  }

  get #who(): { tenant: string; heavyParts: number } {
    const { name, mixedKind } = this.#options;
    return { tenant: name, heavyParts: mixedKind === undefined ? 0 : heavyPartsOf([mixedKind]) };
  }

  /** Since when the first request waits, on whatever replica, by `monotonicMs()`; undefined where none does. */
  get waitsSince(): number | undefined {
    const heads = [this.#urgent, this.#requests, this.#background].flatMap((queue) => [...queue.heads()]);
    return heads.length === 0 ? undefined : Math.min(...heads.map(([, { since }]) => since));
  }

  /** Of whom requests wait, background work left out. */
  get consumers(): Set<string> {
    return new Set(
      [this.#urgent, this.#requests].flatMap((queue) => [...queue.counts()].map(([tenant]) => tenant)),
    );
  }

  /** For whom the next call would be. */
  *#waiting(): Generator<[consumer: string, requests: number]> {
    for (const queue of [this.#urgent, this.#requests, this.#background]) yield* queue.counts();
  }

  /** What each consumer may have of a call that cannot take all, before others have more; undefined while calls are plenty. */
  #divide(most: number): Map<string, number> | undefined {
    const parts = this.size > most ? this.#options.client.budget?.parts() : undefined;
    return parts && new Map(parts.entries().map(([tenant, part]) => [tenant, Math.ceil(part * most)]));
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
    const leftMs = this.#maxWaitOf(pending.call) - (monotonicMs() - pending.since);
    clearTimeout(pending.expiry);
    pending.expiry = setTimeout(
      () => this.#expire(pending),
      Math.min(Math.max(recheckMs, leftMs), remainingMs(pending.call)),
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
    // The maximum wait is for a call of the budget; it does not apply where the CRM is what takes long.
    if (this.#callWait === undefined && remainingMs(call) > 0) {
      this.#arm(pending);
      return;
    }
    this.#queueOf(call).delete(pending.tenant, pending);
    pending.leaveQueue();
    pending.reject(this.#lackedCalls(pending) ?? queueFull());
    this.#stopIfEmpty();
  }

  /** The failure of a request whose time went by while it waited for a call of the budget; undefined where it did not. */
  #lackedCalls({ call }: Pending<Item, Result>): Error | undefined {
    if (this.#callWait === undefined && !this.#wasShort) return undefined;
    return this.#options.client.budget?.waitedTooLong(this.#kindOf(call), call.background === undefined);
  }

  #stopIfEmpty(): void {
    if (this.size === 0) this.#callWait?.giveUp();
  }
}

function nextOf<T>(
  queues: readonly FairQueue<T>[],
  fits: (value: T) => boolean,
  mayHaveNext?: (tenant: string) => boolean,
): T | undefined {
  for (const queue of queues) {
    const next = queue.next(fits, mayHaveNext);
    if (next !== undefined) return next;
  }
  return undefined;
}
