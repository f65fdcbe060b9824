import { type Call, remainingMs } from '../../platform/base/call.ts';
import { monotonicMs, sleep } from '../../platform/base/chance.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { type BatchOptions, executeAfterLoss, executeBatch } from '../batching/execute.ts';
import type { ItemOutcome } from '../batching/operation.ts';
import { type CrmFailure, isCertainlyUnsent } from '../rest/failure.ts';
import type { BatchCall, Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { pauseBeforeRepeat } from '../rest/retry.ts';
import type { QueuedRequest, RequestKind } from './request-kind.ts';

interface BatchRunOptions {
  kind: RequestKind;
  requests: readonly QueuedRequest[];
  call: BatchCall;
  scheduler: {
    /** Lets a request wait for another call. */
    add(kind: RequestKind, request: QueuedRequest): void;
  };
  client: Pick<CrmClient, 'retryBudget' | 'shortestCallMs'>;
  metrics: Metrics;
}

/** Executes the requests of one batch, and settles each of them. */
export class BatchRun {
  readonly #options: BatchRunOptions;
  readonly #call: BatchCall;
  readonly #open: Map<number, QueuedRequest>;

  constructor(options: BatchRunOptions) {
    const { kind, requests, call } = options;
    this.#options = options;
    this.#open = new Map(requests.entries());
    this.#call = {
      ...call,
      deadline: Math.min(...requests.map(({ deadline }) => deadline)),
      // What it needs beyond this one call is part of a write that was begun.
      isWrite: requests.some((request) => kind.isWriteOf(request.call)),
      // The call is a span of the first request's trace; the other requests only log its time.
      span: requests[0]?.call.span ?? call.span,
    };
  }

  /** Sends them, in one call at first; resolves with the milliseconds that it took, undefined where it was sent again in parts. Never throws. */
  async send(permit: Permit): Promise<number | undefined> {
    const { operation } = this.#options.kind;
    const startedAt = monotonicMs();
    let ms: number | undefined;
    try {
      const outcomes = await executeBatch(operation, this.#items, this.#call, { ...this.#execution, permit });
      if (this.#open.size === this.#options.requests.length) ms = monotonicMs() - startedAt;
      this.#settleAll(outcomes);
    } catch (error) {
      this.#rejectAll(error);
    } finally {
      permit.release();
    }
    return ms;
  }

  /** Goes on after a call of another replica that may have executed them. Never throws. */
  async afterLoss(lost: CrmFailure): Promise<void> {
    const { operation } = this.#options.kind;
    try {
      this.#settleAll(await executeAfterLoss(operation, this.#items, lost, this.#call, this.#execution));
    } catch (error) {
      this.#rejectAll(error);
    }
  }

  get #items(): unknown[] {
    return this.#options.requests.map(({ item }) => item);
  }

  /** What happens while the batch is executed, which may be sent again in parts. */
  get #execution(): BatchOptions<unknown> {
    const { kind, metrics, requests } = this.#options;
    const consumers = new Map(requests.map(({ item, call: { consumerId } }) => [item, consumerId]));
    return {
      consumerOf: (item) => consumers.get(item),
      onOutcome: (index, outcome) => this.#settle(index, outcome),
      onSplit: () => metrics.crmBatchSplits.inc({ object: kind.object }),
      onSize: (records, of) => kind.objectSize.lower(records, of),
      pause: async (failure, tried = 1) => {
        const pauseMs = this.#pauseFor(failure, this.#call, tried);
        if (pauseMs !== undefined) await sleep(pauseMs);
        return pauseMs !== undefined;
      },
    };
  }

  #settleAll(outcomes: readonly ItemOutcome<unknown>[]): void {
    for (const [index, outcome] of outcomes.entries()) this.#settle(index, outcome);
  }

  #rejectAll(error: unknown): void {
    for (const { reject } of this.#options.requests) reject(error);
  }

  #settle(index: number, outcome: ItemOutcome<unknown>): void {
    const { kind, scheduler } = this.#options;
    const request = this.#open.get(index);
    if (request === undefined || !this.#open.delete(index)) return;
    request.call.crmMs += this.#call.crmMs;
    if ('result' in outcome) request.resolve(outcome.result);
    else if (outcome.ofItem === true && outcome.failure.kind === 'busy')
      void this.#sendAgain(request, outcome.failure);
    else if (this.#hasTimeOfItsOwn(request, outcome.failure)) scheduler.add(kind, request);
    else request.reject(outcome.failure);
  }

  /** The time of the batch, which is that of its first request to end, was over before there was a call for this one. */
  #hasTimeOfItsOwn({ call }: QueuedRequest, failure: CrmFailure): boolean {
    if (failure.kind !== 'budget_exhausted' || !isCertainlyUnsent(failure)) return false;
    return remainingMs(call) > this.#options.client.shortestCallMs;
  }

  /** Sends an item for which the CRM was too busy again after a pause, in the next call. */
  async #sendAgain(request: QueuedRequest, failure: CrmFailure): Promise<void> {
    const { kind, scheduler } = this.#options;
    request.tries += 1;
    const pauseMs = this.#pauseFor(failure, request.call, request.tries);
    if (pauseMs === undefined) {
      request.reject(failure);
      return;
    }
    await sleep(pauseMs);
    request.since = monotonicMs();
    scheduler.add(kind, request);
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
