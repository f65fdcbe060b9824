import { setTimeout as delay } from 'node:timers/promises';
import { type Call, remainingMs, startCall } from '../../base/call.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { CrmFailure, crowded } from '../rest/failure.ts';
import { FairQueue } from '../rest/fair-queue.ts';
import type { BatchCall } from '../rest/limiter.ts';
import type { Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { pauseBeforeRepeat } from '../rest/retry.ts';
import { executeBatch, type ItemOutcome, type Operation } from './execute.ts';

/*
 * A batcher puts the requests for one operation on one resource into batches, a call each.
 *
 *   idle       nothing is in flight: the first request is sent at once
 *   lingering  calls are in flight: requests wait until they fill a batch, the first has lingered, or nothing is in
 *              flight any more
 *   acquiring  one call waits for its permit (token and slot); then the batch is drawn from all that wait by then, and
 *              sent. No request joins a batch that is drawn.
 *
 *   idle -> acquiring -> lingering or idle;  lingering -> acquiring
 */

/** Requests that are worth a call: with more of them, waiting longer saves little. */
const batchSize = 50;
/** The part of a call's time that the first request waits for others: each call counts against a daily quota. */
const lingerPart = 1 / 8;
const longestLingerMs = 50;
/** Until the first answer tells how long a call takes. */
const presumedLatencyMs = 100;
/** Records that the CRM takes in one Collections call; as many go together where they had to wait for a slot. */
const largestBatch = 200;
/** Bytes in one call. The CRM documents no limit of a body; an answer with as much again must be held in memory. */
const mostBytes = 3 * 1024 * 1024;
/** For a permit; the requests that wait for it have no more time. */
const acquireMs = 25_000;

interface Pending<Item, Result> {
  item: Item;
  call: Call;
  tenant: string;
  /** Times it was sent. */
  tries: number;
  /** Rejects it when its time is over while it waits. */
  expiry?: NodeJS.Timeout;
  /** Tells admission that it no longer waits. */
  leaveQueue: () => void;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

export interface BatcherOptions<Item, Result> {
  /** Unique among all batchers. */
  name: string;
  operation: Operation<Item, Result>;
  client: Pick<CrmClient, 'admission' | 'acquire' | 'retryBudget' | 'shortestCallMs'>;
  /** The longest that a call may take. */
  timeoutMs: number;
  metrics: Metrics;
}

export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  readonly #waiting = new FairQueue<Pending<Item, Result>>();
  /** Background work: it fills up the batches of requests, and has batches of its own while nothing is in flight. */
  readonly #background = new FairQueue<Pending<Item, Result>>();
  #isAcquiring = false;
  /** Batches that are drawn and not answered. */
  #inFlight = 0;
  #latencyMs = presumedLatencyMs;
  /** Halved by a call that took too long, doubled by one that did not. */
  #largestBatch = largestBatch;
  #linger: NodeJS.Timeout | undefined;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /** Executes the operation for one item, in a batch with others where there are any. Throws `CrmFailure` or `Problem`. */
  submit(item: Item, call: Call): Promise<Result> {
    const { client, operation } = this.#options;
    const leaveQueue = client.admission.enter(operation.effect, call);
    // Background work goes in its order, whoever it is for.
    const tenant = call.background === undefined ? (call.consumerId ?? '') : '';
    return new Promise((resolve, reject) => {
      this.#add({ item, call, tenant, tries: 0, leaveQueue, resolve, reject });
    });
  }

  #add(pending: Pending<Item, Result>): void {
    this.#queueOf(pending).add(pending.tenant, pending);
    pending.expiry = setTimeout(() => this.#expire(pending), remainingMs(pending.call));
    this.#consider();
  }

  #queueOf({ call }: Pending<Item, Result>): FairQueue<Pending<Item, Result>> {
    return call.background === undefined ? this.#waiting : this.#background;
  }

  /** Decides whether a batch is sent now. */
  #consider(): void {
    if (this.#isAcquiring) return;
    if (this.#waiting.size === 0 && (this.#inFlight > 0 || this.#background.size === 0)) return;
    if (this.#inFlight === 0 || this.#waiting.size >= Math.min(batchSize, this.#largestBatch)) {
      void this.#send();
      return;
    }
    const lingerMs = Math.min(longestLingerMs, this.#latencyMs * lingerPart);
    this.#linger ??= setTimeout(() => void this.#send(), lingerMs);
  }

  /** One batch, from acquiring its permit to its answers. Never throws. */
  async #send(): Promise<void> {
    const { name, client } = this.#options;
    clearTimeout(this.#linger);
    this.#linger = undefined;
    this.#isAcquiring = true;
    const call = { ...startCall(`batch ${name}`, undefined, acquireMs), batcher: name };
    const acquired = await client.acquire(call).catch((failure: unknown) => ({ failure }));
    this.#isAcquiring = false;
    const batch = this.#draw();
    if ('failure' in acquired) {
      for (const { reject } of batch) reject(acquired.failure);
    } else if (batch.length === 0) acquired.release();
    else await this.#execute(batch, call, acquired);
    this.#consider();
  }

  async #execute(batch: Pending<Item, Result>[], acquiring: BatchCall, permit: Permit): Promise<void> {
    const { operation, metrics } = this.#options;
    metrics.crmBatchSize.observe({ operation: operation.name }, batch.length);
    this.#inFlight += 1;
    this.#consider();
    const call: BatchCall = {
      ...acquiring,
      deadline: Math.min(...batch.map((pending) => pending.call.deadline)),
      background: batch.every((pending) => pending.call.background === 'probe') ? 'probe' : undefined,
      // One trace can show the call as its own; the others know its time only.
      span: batch[0]?.call.span ?? acquiring.span,
    };
    const startedAt = performance.now();
    try {
      const items = batch.map(({ item }) => item);
      const outcomes = await executeBatch(operation, items, call, permit);
      this.#learn(performance.now() - startedAt);
      for (const [index, pending] of batch.entries()) {
        pending.call.crmMs += call.crmMs;
        this.#complete(pending, outcomes[index] as ItemOutcome<Result>);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      permit.release();
      this.#inFlight -= 1;
    }
  }

  /** Takes a batch out of what waits: consumers in turn, then background work, as many requests as one call holds. */
  #draw(): Pending<Item, Result>[] {
    const { operation, client, timeoutMs } = this.#options;
    const batch: Pending<Item, Result>[] = [];
    let bytes = 0;
    const fits = ({ item, call }: Pending<Item, Result>): boolean => {
      const [first] = batch;
      if (first === undefined) return true;
      // A call must end before the earliest of its deadlines: one request with little time does not cut the others'.
      if (remainingMs(first.call) >= timeoutMs !== remainingMs(call) >= timeoutMs) return false;
      return batch.length < this.#largestBatch && bytes + operation.size(item) <= mostBytes;
    };
    const take = () => this.#waiting.next(fits) ?? this.#background.next(fits);
    for (let next = take(); next; next = take()) {
      clearTimeout(next.expiry);
      next.leaveQueue();
      if (remainingMs(next.call) < client.shortestCallMs) {
        next.reject(new CrmFailure('late', 'no time was left for the call'));
        continue;
      }
      batch.push(next);
      bytes += operation.size(next.item);
    }
    return batch;
  }

  #learn(ms: number): void {
    this.#latencyMs += (ms - this.#latencyMs) / 5;
    const isLate = ms >= this.#options.timeoutMs;
    this.#largestBatch = isLate
      ? Math.max(1, Math.floor(this.#largestBatch / 2))
      : Math.min(largestBatch, this.#largestBatch * 2);
  }

  #complete(pending: Pending<Item, Result>, outcome: ItemOutcome<Result>): void {
    if ('result' in outcome) {
      pending.resolve(outcome.result);
      return;
    }
    const { failure, ofItem } = outcome;
    const isPassing = ofItem === true && (failure.kind === 'locked' || failure.kind === 'busy');
    if (isPassing) void this.#retry(pending, failure);
    else pending.reject(failure);
  }

  /** An item that was locked is sent again after a pause, in whatever batch there is by then. */
  async #retry(pending: Pending<Item, Result>, failure: CrmFailure): Promise<void> {
    const { client, metrics } = this.#options;
    pending.tries += 1;
    const mostMs = remainingMs(pending.call) - client.shortestCallMs;
    const pauseMs = pauseBeforeRepeat(failure, pending.tries, mostMs);
    if (pauseMs === undefined || !client.retryBudget.spend()) {
      pending.reject(failure);
      return;
    }
    metrics.crmRetries.inc({ reason: failure.kind });
    await delay(pauseMs);
    this.#add(pending);
  }

  #expire(pending: Pending<Item, Result>): void {
    this.#queueOf(pending).delete(pending.tenant, pending);
    pending.leaveQueue();
    pending.reject(crowded());
  }
}
