import { type Call, isAlone, remainingMs, startCall } from '../../platform/base/call.ts';
import { clearTimeout, monotonicMs, setTimeout, sleep } from '../../platform/base/chance.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { PaidCall } from '../budget/call-budget.ts';
import { type CrmFailure, isCertainlyUnsent } from '../rest/failure.ts';
import type { BatchCall } from '../rest/limiter.ts';
import type { Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { pauseBeforeRepeat } from '../rest/retry.ts';
import { CallSharing, type PermittedBatch } from './call-sharing.ts';
import { type BatchOptions, executeAfterLoss, executeBatch } from './execute.ts';
import type { ForwardedBatches } from './forwarded-batches.ts';
import { Forwarding } from './forwarding.ts';
import type { MixedKind, Mixing } from './mixing.ts';
import { largestBatch, type ObjectSize } from './object-size.ts';
import type { ItemOutcome, Operation } from './operation.ts';
import { isWrite, type Pending } from './pending.ts';
import { RequestQueue } from './request-queue.ts';
import { sendAlone } from './send-alone.ts';

/*
 * A batcher puts the requests for one operation on one resource into batches, a call each.
 *
 *   idle       nothing is in flight: the first request is sent at once
 *   lingering  calls are in flight: requests wait until they fill a batch, the first has lingered, or nothing is in
 *              flight any more
 *   acquiring  one call waits for a call of the budget, where there is one, and for its permit (token and slot); then the
 *              batch is taken from all that wait by then, and sent. No request joins a batch that is sent. While calls of
 *              the budget are short, others share the call: see call-sharing.ts
 *
 *   idle -> acquiring -> lingering or idle;  lingering -> acquiring
 */

/** Requests that are worth a call: with more of them, waiting longer saves little. */
const batchSize = 50;
/** The part of a call's time that the first request waits for others: each call counts against a daily quota. */
const lingerPart = 1 / 8;
const longestLingerMs = 50;
/** Until the first answer shows how long a call takes. */
const presumedLatencyMs = 100;
/** For a permit; the requests that wait for it have no more time. */
const acquireMs = 25_000;

export interface BatcherOptions<Item, Result> {
  /** Unique among all batchers. */
  name: string;
  /** The same on replicas whose requests may share a call. */
  batchKey: string;
  operation: Operation<Item, Result>;
  /** The CRM's name of the object. */
  object: string;
  /** How many of its records a write may hold. */
  objectSize: ObjectSize;
  client: Pick<CrmClient, 'admission' | 'acquire' | 'budget' | 'retryBudget' | 'shortestCallMs'>;
  /** The longest that a call may take. */
  timeoutMs: number;
  metrics: Metrics;
  /** Batches of other replicas, which share calls while these are short. */
  forwarded?: ForwardedBatches | undefined;
  /** Batches of other kinds, which do so too, and what one of this batcher takes in such a call. */
  mixing?: Mixing | undefined;
  mixedKind?: MixedKind | undefined;
}

export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  readonly #queue: RequestQueue<Item, Result>;
  readonly #sharing: CallSharing<Item, Result>;
  #isAcquiring = false;
  /** Batches that are sent and not answered. */
  #inFlight = 0;
  #latencyMs = presumedLatencyMs;
  /** Halved by a call that took too long, doubled by one that did not. */
  #largestBatch = largestBatch;
  #linger: NodeJS.Timeout | undefined;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
    this.#queue = new RequestQueue(options);
    const forwarding = new Forwarding({
      ...options,
      queue: this.#queue,
      add: (pending) => this.#add(pending),
      goOnAfterLoss: (batch, lost) =>
        void this.#execute(batch, { ...startCall(`batch ${options.name}`), batcher: options.name }, { lost }),
    });
    this.#sharing = new CallSharing({
      ...options,
      queue: this.#queue,
      forwarding,
      mostRequests: () => this.#perCall,
      newCall: () => this.#newCall(),
      send: (batch) => this.#sendBatch(batch),
    });
  }

  /** Executes the operation for one item, in a batch with others where there are any. Throws `CrmFailure` or `Problem`. */
  submit(item: Item, call: Call): Promise<Result> {
    const { client, operation } = this.#options;
    if (isAlone(call)) return sendAlone(item, call, this.#options);
    return new Promise((resolve, reject) => {
      const leaveQueue = client.admission.enter(operation.effect, call);
      try {
        this.#queue.check(call, { perCall: this.#perCall, joins: this.#isAcquiring });
      } catch (error) {
        leaveQueue();
        throw error;
      }
      // Background work keeps its order, whatever consumers it is for.
      const tenant = call.background === undefined ? (call.consumerId ?? '') : '';
      const since = monotonicMs();
      this.#add({ item, call, tenant, tries: 0, since, leaveQueue, resolve, reject });
    });
  }

  #add(pending: Pending<Item, Result>): void {
    this.#queue.add(pending);
    this.#consider();
  }

  /** Requests that go into one call. */
  get #perCall(): number {
    const { operation, objectSize } = this.#options;
    return operation.effect === 'read' ? this.#largestBatch : Math.min(this.#largestBatch, objectSize.most);
  }

  /** Decides whether a batch is sent now. */
  #consider(): void {
    const { requests, size } = this.#queue;
    // Background work alone has batches of its own while nothing is in flight.
    if (this.#isAcquiring || size === 0 || (requests === 0 && this.#inFlight > 0)) return;
    if (this.#inFlight === 0 || requests >= Math.min(batchSize, this.#perCall)) {
      void this.#send();
      return;
    }
    const lingerMs = Math.min(longestLingerMs, this.#latencyMs * lingerPart);
    this.#linger ??= setTimeout(() => void this.#send(), lingerMs);
  }

  /** One batch, from waiting for a call of the budget to its answers. Never throws. */
  async #send(): Promise<void> {
    const { budget } = this.#options.client;
    clearTimeout(this.#linger);
    this.#linger = undefined;
    this.#isAcquiring = true;
    const paid = budget && (await this.#queue.waitForCall(budget));
    const isPaid = budget === undefined || paid !== undefined;
    if (isPaid && this.#queue.size > 0) await this.#sendPaid(paid);
    else {
      // All have expired, or go with a call of another replica; others may have come just now.
      this.#isAcquiring = false;
      paid?.giveBack();
    }
    this.#consider();
  }

  /** Acquires the permit, then takes the batch and sends it. Never throws. */
  async #sendPaid(paid: PaidCall | undefined): Promise<void> {
    const call = this.#newCall();
    const acquired = await this.#options.client
      .acquire(call, paid)
      .catch((failure: unknown) => ({ failure }));
    const companions = paid?.wasShort && !('failure' in acquired) ? await this.#sharing.gather() : [];
    this.#isAcquiring = false;
    const batch = this.#queue.take(this.#perCall);
    if ('failure' in acquired) for (const { reject } of batch) reject(acquired.failure);
    else if (batch.length === 0) acquired.release();
    else await this.#sharing.send({ batch, call, permit: acquired, paid }, companions);
  }

  async #sendBatch({ batch, call, permit }: PermittedBatch<Item, Result>): Promise<void> {
    const { operation, metrics } = this.#options;
    metrics.crmBatchSize.observe({ operation: operation.name }, batch.length);
    this.#inFlight += 1;
    this.#consider();
    await this.#execute(batch, call, { permit });
    this.#consider();
  }

  #newCall(): BatchCall {
    const { name } = this.#options;
    return { ...startCall(`batch ${name}`, undefined, acquireMs), batcher: name };
  }

  /**
   * Executes a batch and settles each of its requests. `permit`: of its first call. `lost`: there is none, since another
   * replica may have executed the batch already. Never throws.
   */
  async #execute(
    batch: Pending<Item, Result>[],
    base: BatchCall,
    { permit, lost }: { permit?: Permit; lost?: CrmFailure },
  ): Promise<void> {
    const { operation } = this.#options;
    const call = this.#callOf(batch, base);
    const startedAt = monotonicMs();
    const open = new Map(batch.entries());
    const onOutcome = (index: number, outcome: ItemOutcome<Result>) => {
      const pending = open.get(index);
      if (pending === undefined || !open.delete(index)) return;
      pending.call.crmMs += call.crmMs;
      this.#complete(pending, outcome);
    };
    try {
      const items = batch.map(({ item }) => item);
      const consumers = new Map<unknown, string | undefined>(
        batch.map(({ item, call: { consumerId } }) => [item, consumerId]),
      );
      const consumerOf = (item: unknown) => consumers.get(item);
      const options = { ...this.#splitOptions(call), permit, onOutcome, consumerOf };
      const outcomes = lost
        ? await executeAfterLoss(operation, items, lost, call, options)
        : await executeBatch(operation, items, call, options);
      // All are open where the batch was not split.
      if (permit && open.size === batch.length) this.#learn(monotonicMs() - startedAt);
      for (const [index, outcome] of outcomes.entries()) onOutcome(index, outcome);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      permit?.release();
      if (permit) this.#inFlight -= 1;
    }
  }

  #callOf(batch: readonly Pending<Item, Result>[], base: BatchCall): BatchCall {
    return {
      ...base,
      deadline: Math.min(...batch.map(({ call }) => call.deadline)),
      // What it needs beyond this one call is part of a write that was begun.
      isWrite: batch.some(({ call }) => isWrite(this.#options.operation, call)),
      // The call is a span of the first request's trace; the other requests only log its time.
      span: batch[0]?.call.span ?? base.span,
    };
  }

  /** Callbacks and limits for a batch that is sent again in parts. */
  #splitOptions(call: BatchCall): BatchOptions<Result> {
    const { object, objectSize, metrics } = this.#options;
    return {
      onSplit: () => metrics.crmBatchSplits.inc({ object }),
      onSize: (records, of) => objectSize.lower(records, of),
      pause: async (failure, tried = 1) => {
        const pauseMs = this.#pauseFor(failure, call, tried);
        if (pauseMs !== undefined) await sleep(pauseMs);
        return pauseMs !== undefined;
      },
    };
  }

  #learn(ms: number): void {
    this.#latencyMs += (ms - this.#latencyMs) / 5;
    const isLate = ms >= this.#options.timeoutMs;
    this.#largestBatch = isLate
      ? Math.max(1, Math.floor(this.#largestBatch / 2))
      : Math.min(largestBatch, this.#largestBatch * 2);
  }

  #complete(pending: Pending<Item, Result>, outcome: ItemOutcome<Result>): void {
    if ('result' in outcome) pending.resolve(outcome.result);
    else if (outcome.ofItem === true && outcome.failure.kind === 'busy')
      void this.#retry(pending, outcome.failure);
    else if (this.#hasTimeOfItsOwn(pending, outcome.failure)) this.#add(pending);
    else pending.reject(outcome.failure);
  }

  /** The time of the batch, which is that of its first request to end, was over before there was a call for this one. */
  #hasTimeOfItsOwn({ call }: Pending<Item, Result>, failure: CrmFailure): boolean {
    if (failure.kind !== 'budget_exhausted' || !isCertainlyUnsent(failure)) return false;
    return remainingMs(call) > this.#options.client.shortestCallMs;
  }

  /** Sends an item for which the CRM was too busy again after a pause, in the next batch. */
  async #retry(pending: Pending<Item, Result>, failure: CrmFailure): Promise<void> {
    pending.tries += 1;
    const pauseMs = this.#pauseFor(failure, pending.call, pending.tries);
    if (pauseMs === undefined) {
      pending.reject(failure);
      return;
    }
    await sleep(pauseMs);
    pending.since = monotonicMs();
    this.#add(pending);
  }

  /** Milliseconds to wait before something is sent again; undefined where it may not be. */
  #pauseFor(failure: CrmFailure, call: Call, tried: number): number | undefined {
    const { client, metrics } = this.#options;
    const pauseMs = pauseBeforeRepeat(failure, tried, remainingMs(call) - client.shortestCallMs);
    if (pauseMs === undefined || !client.retryBudget.spend()) return undefined;
    metrics.crmRetries.inc({ reason: failure.kind });
    return pauseMs;
  }
}
