import { type Call, isAlone, remainingMs, startCall } from '../../platform/base/call.ts';
import { clearTimeout, monotonicMs, now, setTimeout } from '../../platform/base/chance.ts';
import type { FairQueue } from '../../platform/base/concurrency.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { MixedCall } from '../batching/mixed-call.ts';
import type { CallBudget, PaidCall } from '../budget/call-budget.ts';
import { CrmFailure, queueFull } from '../failure.ts';
import { type BatchCall, countByConsumer, type Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { BatchRun } from './batch-run.ts';
import { type ForwardedBatches, type ForwardedRoom, Forwarding } from './forwarded-batches.ts';
import {
  type Allowed,
  companionsOf,
  type PlannedBatch,
  planBatch,
  planCall,
  waitsForParent,
} from './planner.ts';
import { type KindOptions, newRequest, type QueuedRequest, RequestKind } from './request-kind.ts';

/*
 * The scheduler holds all that waits for the CRM: requests by their kind until they share a call, and whatever else needs a
 * call of its own. It decides who is admitted, how long each waits, and who gets the next call; what goes into that is up
 * to the planner. The states of a kind:
 *
 *   idle       nothing is in flight: the first request is sent at once
 *   lingering  calls are in flight: requests wait until they fill a batch, the first has lingered, or nothing is in
 *              flight any more
 *   acquiring  one call waits for a call of the budget, where there is one, then for its permit (token and slot); then the
 *              planner composes it from all that wait by then. No request joins a call that is sent. While calls of the
 *              budget are short, other replicas are invited to share the call, and other kinds do
 *
 *   idle -> acquiring -> lingering or idle;  lingering -> acquiring
 */

const acquireMs = 25_000;
/** How often a request past its maximum wait is checked while it does not wait for the budget. */
const recheckMs = 50;
/** Until requests that wait for parents are looked at again, in milliseconds at most. */
const longestHoldMs = 1000;
/** After a call that was too much, each kind has calls of its own for this long. */
const mixingPauseMs = 60_000;

interface SchedulerOptions {
  client: Pick<
    CrmClient,
    'permits' | 'budget' | 'retryBudget' | 'shortestCallMs' | 'exchange' | 'dataPath' | 'writeHeaders'
  >;
  timeoutMs: number;
  stopping?: AbortSignal | undefined;
  forwarded: ForwardedBatches | undefined;
  metrics: Metrics;
}

type Batch = PlannedBatch<QueuedRequest> & { kind: RequestKind };

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #kinds: RequestKind[] = [];
  readonly #forwarding = new Map<RequestKind, Forwarding>();
  readonly #parents = new Map<string, { calls: number; until: number }>();
  #mixingFrom = 0;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    options.stopping?.addEventListener('abort', () => {
      for (const kind of this.#kinds) for (const request of kind.queues[2]) this.#arm(kind, request);
    });
  }

  addKind<Item, Result>(options: KindOptions<Item, Result>): RequestKind<Item, Result> {
    const kind = new RequestKind(options);
    this.#kinds.push(kind);
    const { timeoutMs, forwarded, client } = this.#options;
    const { budget } = client;
    if (kind.isShared)
      this.#forwarding.set(kind, new Forwarding({ kind, timeoutMs, budget, forwarded, scheduler: this }));
    return kind;
  }

  /** Executes the operation for one item, in a call with others where there are any. Throws `CrmFailure` or `Problem`. */
  async submit<Item, Result>(kind: RequestKind<Item, Result>, item: Item, call: Call): Promise<Result> {
    if (isAlone(call)) return this.#sendAlone(kind, item, call);
    const leaveQueue = this.#options.client.permits.enter(kind.operation.effect, call);
    try {
      this.#checkBudget(kind, call);
    } catch (error) {
      leaveQueue();
      throw error;
    }
    const request = newRequest(kind, item, call, monotonicMs(), leaveQueue);
    this.add(kind, request);
    return request.settled as Promise<Result>;
  }

  add(kind: RequestKind, request: QueuedRequest): void {
    this.#queueFor(kind, request).add(request.tenant, request);
    this.#arm(kind, request);
    if (request.call.background === undefined && kind.isWriteOf(request.call)) kind.callWait?.becomeWrite();
    if (kind.isHeldUp && !waitsForParent(request, this.#allowed())) this.#resume(kind);
    this.#consider(kind);
  }

  /** Refuses a request that would wait in vain for a call of the budget. Throws `CrmFailure` (budget_exhausted). */
  #checkBudget(kind: RequestKind, call: Call): void {
    const { budget } = this.#options.client;
    if (budget === undefined || call.background !== undefined) return;
    // As many wait on each of the other replicas, and share the same calls.
    const further = Math.floor((kind.requests * budget.replicas) / kind.perCall);
    const who = { ...kind.who, consumer: call.consumerId ?? '' };
    budget.admit(kind.isWriteOf(call) ? 'write' : 'read', who, { joins: kind.isAcquiring, further });
  }

  #consider(kind: RequestKind): void {
    // Background work alone has calls of its own while nothing is in flight.
    const isForBackground = kind.requests === 0 && kind.inFlight > 0;
    if (kind.isAcquiring || kind.size === 0 || kind.isHeldUp || isForBackground) return;
    if (kind.inFlight === 0 || kind.isWorthCall) void this.#send(kind);
    else kind.linger ??= setTimeout(() => void this.#send(kind), kind.lingerMs);
  }

  /** One call, from waiting for a call of the budget to its answers. Never throws. */
  async #send(kind: RequestKind): Promise<void> {
    const { budget } = this.#options.client;
    clearTimeout(kind.linger);
    kind.linger = undefined;
    if (kind.isAcquiring || kind.isHeldUp) return;
    kind.isAcquiring = true;
    const paid = budget && (await this.#waitForCall(kind, budget));
    if ((budget === undefined || paid !== undefined) && kind.size > 0) await this.#sendPaid(kind, paid);
    else {
      // All have expired, or go with a call of another replica; others may have come just now.
      kind.isAcquiring = false;
      paid?.giveBack();
    }
    this.#consider(kind);
  }

  async #waitForCall(kind: RequestKind, budget: CallBudget): Promise<PaidCall | undefined> {
    let paid: PaidCall | undefined;
    while (paid === undefined && kind.size > 0) {
      const who = { ...kind.who, requesters: () => kind.waiting() };
      kind.callWait = budget.waitForCall(kind.isForWrite ? 'write' : 'read', who);
      paid = await kind.callWait.paid;
      kind.callWait = undefined;
      if (paid !== undefined) kind.wasShort = paid.wasShort;
    }
    return paid;
  }

  /** Acquires the permit, then composes the call and sends it. Never throws. */
  async #sendPaid(kind: RequestKind, paid: PaidCall | undefined): Promise<void> {
    try {
      const permit = await this.#options.client.permits.acquire(this.#newCall(kind), paid);
      const companions = paid?.wasShort ? await this.#gather(kind) : [];
      kind.isAcquiring = false;
      const batches = this.#compose(kind, companions);
      if (batches.length === 0) {
        permit.release();
        return;
      }
      const consumers = batches.flatMap(({ requests }) => requests.map(({ call }) => call.consumerId));
      paid?.chargeTo(countByConsumer(consumers));
      const permits = batches.length === 1 ? [permit] : this.#shareCall(permit, batches.length);
      await Promise.all(batches.map((batch, index) => this.#sendBatch(batch, permits[index] ?? permit)));
    } catch (failure) {
      // There is no permit.
      kind.isAcquiring = false;
      for (const { requests } of this.#compose(kind, [])) for (const { reject } of requests) reject(failure);
    }
  }

  #compose(kind: RequestKind, companions: readonly RequestKind[]): Batch[] {
    const plan = planCall(kind, companions, this.#allowed());
    for (const batch of plan) this.#take(batch);
    if (plan[0]?.isHeldUp && kind.size > 0) this.#holdUp(kind);
    return plan.filter(({ requests }) => requests.length > 0);
  }

  async #gather(kind: RequestKind): Promise<RequestKind[]> {
    kind.isGathering = true;
    const time = monotonicMs();
    const isMixed = kind.isShared && time >= this.#mixingFrom;
    const others = this.#kinds.filter(({ isShared }) => isShared);
    const companions = isMixed ? companionsOf(kind, others, time) : [];
    await Promise.all([kind, ...companions].map(async (each) => this.#forwarding.get(each)?.invite()));
    kind.isGathering = false;
    return companions;
  }

  #shareCall(permit: Permit, batches: number): Permit[] {
    const onTooMuch = () => {
      this.#mixingFrom = monotonicMs() + mixingPauseMs;
    };
    return new MixedCall({ client: this.#options.client, permit, batches, onTooMuch }).permits();
  }

  /** Never throws. */
  async #sendBatch({ kind, requests }: Batch, permit: Permit): Promise<void> {
    const { metrics, timeoutMs } = this.#options;
    metrics.crmBatchSize.observe({ operation: kind.operation.name }, requests.length);
    kind.inFlight += 1;
    const parents = this.#occupy(kind, requests);
    this.#consider(kind);
    const call = this.#newCall(kind);
    const ms = await new BatchRun({ ...this.#options, kind, requests, call, scheduler: this }).send(permit);
    if (ms !== undefined) kind.learn(ms, timeoutMs);
    kind.inFlight -= 1;
    this.#vacate(parents);
    this.#consider(kind);
  }

  #occupy(kind: RequestKind, requests: readonly QueuedRequest[]): Set<string> {
    const parents = new Set(requests.flatMap(({ parent }) => parent ?? []));
    const until = monotonicMs() + kind.parentWaitMs;
    for (const parent of parents) {
      const calls = (this.#parents.get(parent)?.calls ?? 0) + 1;
      this.#parents.set(parent, { calls, until });
    }
    return parents;
  }

  #vacate(parents: ReadonlySet<string>): void {
    for (const parent of parents) {
      const busy = this.#parents.get(parent);
      if (busy === undefined || busy.calls === 1) this.#parents.delete(parent);
      else busy.calls -= 1;
    }
    if (parents.size > 0) for (const kind of this.#kinds) this.#resume(kind);
  }

  #resume(kind: RequestKind): void {
    if (!kind.isHeldUp) return;
    kind.isHeldUp = false;
    clearTimeout(kind.linger);
    kind.linger = undefined;
    this.#consider(kind);
  }

  #holdUp(kind: RequestKind): void {
    const time = monotonicMs();
    const ends = this.#parents
      .values()
      .map(({ until }) => until)
      .filter((until) => until > time);
    kind.isHeldUp = true;
    kind.linger ??= setTimeout(() => this.#resume(kind), Math.min(time + longestHoldMs, ...ends) - time);
  }

  #allowed(): Allowed {
    const {
      timeoutMs,
      client: { shortestCallMs: enoughMs, budget },
    } = this.#options;
    const steady = monotonicMs();
    const busy = this.#parents.entries().filter(([, { until }]) => until > steady);
    const busyParents = new Set(busy.map(([parent]) => parent));
    return { time: now(), timeoutMs, enoughMs, parts: budget?.parts, busyParents };
  }

  #take({ kind, requests, late }: Pick<Batch, 'kind' | 'requests' | 'late'>): void {
    for (const request of [...requests, ...late]) {
      this.#queueFor(kind, request).take(request.tenant, request);
      clearTimeout(request.expiry);
      request.leaveQueue();
    }
    for (const { call, reject } of late)
      reject(this.#lackedCalls(kind, call) ?? new CrmFailure('late', 'no time was left for the call'));
    if (kind.size === 0) kind.callWait?.giveUp();
  }

  #queueFor(kind: RequestKind, { call }: QueuedRequest): FairQueue<QueuedRequest> {
    const [urgent, requests, background] = kind.queues;
    if (call.background !== undefined) return background;
    const isUrgent = this.#options.client.budget && !kind.isWrite && call.isWrite === true;
    return isUrgent ? urgent : requests;
  }

  #arm(kind: RequestKind, request: QueuedRequest): void {
    const leftMs = this.#maxWaitOf(request.call) - (monotonicMs() - request.since);
    clearTimeout(request.expiry);
    request.expiry = setTimeout(
      () => this.#expire(kind, request),
      Math.min(Math.max(recheckMs, leftMs), remainingMs(request.call)),
    );
  }

  #maxWaitOf({ background }: Call): number {
    const { client, stopping } = this.#options;
    if (client.budget === undefined) return Number.POSITIVE_INFINITY;
    if (background === undefined) return client.budget.maxWaitMs;
    // When the service stops, it waits in the database only.
    return stopping?.aborted ? 0 : Number.POSITIVE_INFINITY;
  }

  #expire(kind: RequestKind, request: QueuedRequest): void {
    const { call, tenant } = request;
    // The maximum wait is for a call of the budget; it does not apply where the CRM is what takes long.
    if (kind.callWait === undefined && remainingMs(call) > 0) {
      this.#arm(kind, request);
      return;
    }
    this.#queueFor(kind, request).delete(tenant, request);
    request.leaveQueue();
    request.reject(this.#lackedCalls(kind, call) ?? queueFull());
    if (kind.size === 0) kind.callWait?.giveUp();
  }

  /** The failure of a request whose time went by while it waited for a call of the budget; undefined where it did not. */
  #lackedCalls(kind: RequestKind, call: Call): Error | undefined {
    if (kind.callWait === undefined && !kind.wasShort) return undefined;
    const purpose = kind.isWriteOf(call) ? 'write' : 'read';
    return this.#options.client.budget?.waitedTooLong(purpose, call.background === undefined);
  }

  takeForOther(kind: RequestKind, { furtherMs, ...room }: ForwardedRoom): QueuedRequest[] {
    const [urgent, requests] = kind.queues;
    const joinsWithMs = this.#options.client.shortestCallMs + furtherMs;
    const batch = planBatch([urgent, requests], { ...room, joinsWithMs }, this.#allowed());
    this.#take({ ...batch, kind });
    return batch.requests;
  }

  goOnAfterLoss(kind: RequestKind, requests: readonly QueuedRequest[], lost: CrmFailure): void {
    const call = { ...startCall(`batch ${kind.name}`), kind: kind.name };
    void new BatchRun({ ...this.#options, kind, requests, call, scheduler: this }).afterLoss(lost);
  }

  /** Does not wait for other calls, nor they for it. Throws `CrmFailure`, `Problem`. */
  async #sendAlone<Item, Result>(kind: RequestKind<Item, Result>, item: Item, call: Call): Promise<Result> {
    const { client, metrics } = this.#options;
    const { operation, name } = kind;
    const own: BatchCall = { ...call, kind: name, isWrite: kind.isWriteOf(call) };
    const permit = await client.permits.permitFor(operation.effect, own);
    try {
      metrics.crmBatchSize.observe({ operation: operation.name }, 1);
      const [outcome] = await operation.execute([item], own, permit);
      if (outcome !== undefined && 'failure' in outcome) throw outcome.failure;
      return (outcome as { result: Result }).result;
    } finally {
      permit.release();
    }
  }

  #newCall({ name }: RequestKind): BatchCall {
    return { ...startCall(`batch ${name}`, undefined, acquireMs), kind: name };
  }
}
