import { setTimeout as delay } from 'node:timers/promises';
import { type Call, isAlone, remainingMs, startCall } from '../../platform/base/call.ts';
import { FairQueue } from '../../platform/base/fair-queue.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget, PaidCall, Waiting } from '../budget/call-budget.ts';
import { CrmFailure, crowded } from '../rest/failure.ts';
import type { BatchCall } from '../rest/limiter.ts';
import type { Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { pauseBeforeRepeat } from '../rest/retry.ts';
import type { Company, LentItem, Loan, Party, Tell } from './company.ts';
import { type BatchOptions, executeAfterLoss, executeBatch } from './execute.ts';
import { hostItems, lendBatch } from './loans.ts';
import { largestBatch, type ObjectSize } from './object-size.ts';
import type { ItemOutcome, Operation } from './operation.ts';
import type { Pending } from './pending.ts';
import { takeBatch } from './take-batch.ts';

/*
 * A batcher puts the requests for one operation on one resource into batches, a call each.
 *
 *   idle       nothing is in flight: the first request is sent at once
 *   lingering  calls are in flight: requests wait until they fill a batch, the first has lingered, or nothing is in
 *              flight any more
 *   acquiring  one call waits for a call of the budget, where there is one, and for its permit (token and slot); then the
 *              batch is drawn from all that wait by then, and sent. No request joins a batch that is drawn. So a batch
 *              grows while the budget is short, and each of its requests is as patient as the settings say.
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
/** Between looks at one that waits for the CRM, not for the budget; no wait is shorter. */
const shortestWaitMs = 50;
/** For a permit; the requests that wait for it have no more time. */
const acquireMs = 25_000;

export interface BatcherOptions<Item, Result> {
  /** Unique among all batchers. */
  name: string;
  /** The same on replicas whose requests may share a call. */
  party: string;
  operation: Operation<Item, Result>;
  /** The CRM's name of the object. */
  object: string;
  /** How many of its records a write may hold. */
  objectSize: ObjectSize;
  client: Pick<CrmClient, 'admission' | 'acquire' | 'budget' | 'retryBudget' | 'shortestCallMs'>;
  /** The longest that a call may take. */
  timeoutMs: number;
  metrics: Metrics;
  /** Other replicas, which share calls while these are short. */
  company?: Company | undefined;
}

export class Batcher<Item, Result> implements Party {
  readonly #options: BatcherOptions<Item, Result>;
  readonly #waiting = new FairQueue<Pending<Item, Result>>();
  /** Background work: it fills up the batches of requests, and has batches of its own while nothing is in flight. */
  readonly #background = new FairQueue<Pending<Item, Result>>();
  /** With a budget: look-ups that a write begins with. They are served first. */
  readonly #urgent = new FairQueue<Pending<Item, Result>>();
  #isAcquiring = false;
  /** Other replicas are invited into its call. */
  #isGathering = false;
  /** Its place in the line for a call of the budget. */
  #waitingForBudget: Waiting | undefined;
  /** Batches that are drawn and not answered. */
  #inFlight = 0;
  #latencyMs = presumedLatencyMs;
  /** Halved by a call that took too long, doubled by one that did not. */
  #largestBatch = largestBatch;
  #linger: NodeJS.Timeout | undefined;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
    options.company?.join(options.party, this);
    options.client.budget?.stopping?.addEventListener('abort', () => {
      for (const pending of this.#background) this.#arm(pending);
    });
  }

  /** Executes the operation for one item, in a batch with others where there are any. Throws `CrmFailure` or `Problem`. */
  submit(item: Item, call: Call): Promise<Result> {
    const { client, operation } = this.#options;
    if (isAlone(call)) return this.#sendAlone(item, call);
    return new Promise((resolve, reject) => {
      const leaveQueue = client.admission.enter(operation.effect, call);
      try {
        this.#checkBudget(call);
      } catch (error) {
        leaveQueue();
        throw error;
      }
      // Background work goes in its order, whoever it is for.
      const tenant = call.background === undefined ? (call.consumerId ?? '') : '';
      const since = performance.now();
      this.#add({ item, call, tenant, tries: 0, since, leaveQueue, resolve, reject });
    });
  }

  /** Sends an item in a call of its own. It does not wait for other calls of the batcher, nor they for it. */
  async #sendAlone(item: Item, call: Call): Promise<Result> {
    const { client, operation, name, metrics } = this.#options;
    client.admission.enter(operation.effect, call);
    const own: BatchCall = { ...call, batcher: name };
    const kind = this.#isWrite(call) ? 'write' : 'read';
    const paid = await client.budget?.wait(kind, name, remainingMs(call)).paid;
    const permit = await client.acquire(own, paid);
    try {
      metrics.crmBatchSize.observe({ operation: operation.name }, 1);
      const [outcome] = await executeBatch(operation, [item], own, { permit });
      if (outcome !== undefined && 'failure' in outcome) throw outcome.failure;
      return (outcome as { result: Result }).result;
    } finally {
      permit.release();
    }
  }

  /** Refuses at once what would wait in vain for a call of the budget. Throws `CrmFailure` (paced). */
  #checkBudget(call: Call): void {
    const { budget } = this.#options.client;
    if (budget === undefined || call.background !== undefined) return;
    // As many wait on each of the other replicas, and go with the same calls.
    const further = Math.floor((this.#requests * budget.replicas) / this.#most);
    budget.check(this.#isWrite(call) ? 'write' : 'read', { joins: this.#isAcquiring, further });
  }

  #isWrite(call: Call): boolean {
    return this.#options.operation.effect !== 'read' || call.isWrite === true;
  }

  #add(pending: Pending<Item, Result>): void {
    this.#queueOf(pending).add(pending.tenant, pending);
    this.#arm(pending);
    if (pending.call.background === undefined && this.#isWrite(pending.call))
      this.#waitingForBudget?.becomeWrite();
    this.#consider();
  }

  #arm(pending: Pending<Item, Result>): void {
    const waitedMs = performance.now() - pending.since;
    const leftMs = Math.max(shortestWaitMs, this.#maxWaitOf(pending.call) - waitedMs);
    clearTimeout(pending.expiry);
    pending.expiry = setTimeout(() => this.#expire(pending), Math.min(leftMs, remainingMs(pending.call)));
  }

  /** Milliseconds that it waits for a call of the budget. */
  #maxWaitOf({ background }: Call): number {
    const { budget } = this.#options.client;
    if (budget === undefined) return Number.POSITIVE_INFINITY;
    if (background === undefined) return budget.maxWaitMs;
    // Where the service stops, it goes on waiting in the database alone.
    return budget.stopping?.aborted ? 0 : Number.POSITIVE_INFINITY;
  }

  #queueOf({ call }: Pending<Item, Result>): FairQueue<Pending<Item, Result>> {
    if (call.background !== undefined) return this.#background;
    const { client, operation } = this.#options;
    const isUrgent = client.budget !== undefined && operation.effect === 'read' && call.isWrite === true;
    return isUrgent ? this.#urgent : this.#waiting;
  }

  /** Requests that wait, background work left out. */
  get #requests(): number {
    return this.#urgent.size + this.#waiting.size;
  }

  /** Requests that go into one call. */
  get #most(): number {
    const { operation, objectSize } = this.#options;
    return operation.effect === 'read' ? this.#largestBatch : Math.min(this.#largestBatch, objectSize.most);
  }

  /** Decides whether a batch is sent now. */
  #consider(): void {
    if (this.#isAcquiring) return;
    if (this.#requests === 0 && (this.#inFlight > 0 || this.#background.size === 0)) return;
    if (this.#inFlight === 0 || this.#requests >= Math.min(batchSize, this.#most)) {
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
    const paid = client.budget && (await this.#pay(client.budget));
    if (client.budget !== undefined && paid === undefined) {
      this.#isAcquiring = false;
      this.#consider();
      return;
    }
    const call = { ...startCall(`batch ${name}`, undefined, acquireMs), batcher: name };
    const acquired = await client.acquire(call, paid).catch((failure: unknown) => ({ failure }));
    if (paid?.wasShort && !('failure' in acquired)) await this.#gather();
    this.#isAcquiring = false;
    const batch = this.#draw();
    if ('failure' in acquired) {
      for (const { reject } of batch) reject(acquired.failure);
    } else if (batch.length === 0) acquired.release();
    else await this.#execute(batch, call, acquired);
    this.#consider();
  }

  /** While calls are short, other replicas use the room that this one has. */
  async #gather(): Promise<void> {
    const { party, client, company } = this.#options;
    const others = (client.budget?.replicas ?? 1) - 1;
    const room = this.#most - this.#requests;
    if (company === undefined || others === 0 || room <= 0) return;
    this.#isGathering = true;
    await company.invite(party, room, others);
    this.#isGathering = false;
  }

  /** A call of the budget; undefined where nothing waits for it any more. */
  async #pay(budget: CallBudget): Promise<PaidCall | undefined> {
    const { name, operation } = this.#options;
    const isWrite = this.#urgent.size > 0 || (operation.effect !== 'read' && this.#waiting.size > 0);
    this.#waitingForBudget = budget.wait(isWrite ? 'write' : 'read', name);
    const paid = await this.#waitingForBudget.paid;
    this.#waitingForBudget = undefined;
    return paid;
  }

  async #execute(batch: Pending<Item, Result>[], acquiring: BatchCall, permit: Permit): Promise<void> {
    const { operation, metrics } = this.#options;
    metrics.crmBatchSize.observe({ operation: operation.name }, batch.length);
    this.#inFlight += 1;
    this.#consider();
    const call: BatchCall = {
      ...acquiring,
      deadline: Math.min(...batch.map((pending) => pending.call.deadline)),
      // What it needs beyond this one call is part of a write that was begun.
      isWrite: batch.some((pending) => this.#isWrite(pending.call)),
      // One trace can show the call as its own; the others know its time only.
      span: batch[0]?.call.span ?? acquiring.span,
    };
    const startedAt = performance.now();
    const open = new Map(batch.entries());
    const onOutcome = (index: number, outcome: ItemOutcome<Result>) => {
      const pending = open.get(index);
      if (pending === undefined || !open.delete(index)) return;
      pending.call.crmMs += call.crmMs;
      this.#complete(pending, outcome);
    };
    try {
      const items = batch.map(({ item }) => item);
      const split = this.#splitOptions(call);
      const outcomes = await executeBatch(operation, items, call, { ...split, permit, onOutcome });
      // All are open where the batch was not split.
      if (open.size === batch.length) this.#learn(performance.now() - startedAt);
      for (const [index, outcome] of outcomes.entries()) onOutcome(index, outcome);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      permit.release();
      this.#inFlight -= 1;
    }
  }

  /** Callbacks and limits for a batch that is sent again in parts. */
  #splitOptions(call: BatchCall): BatchOptions<Result> {
    const { object, objectSize, metrics } = this.#options;
    return {
      onSplit: () => metrics.crmBatchSplits.inc({ object }),
      onSize: (records, of) => objectSize.lower(records, of),
      pause: async (failure, tried = 1) => {
        const pauseMs = this.#pauseFor(failure, call, tried);
        if (pauseMs !== undefined) await delay(pauseMs);
        return pauseMs !== undefined;
      },
    };
  }

  /** Takes a batch of waiting requests, in the order of the queues. */
  #draw(most = this.#most, isLent = false): Pending<Item, Result>[] {
    const { operation, client, timeoutMs } = this.#options;
    // Background work does not join calls of other replicas.
    const queues = [this.#urgent, this.#waiting, ...(isLent ? [] : [this.#background])];
    return takeBatch(queues, {
      ...{ most, isLent, timeoutMs, shortestCallMs: client.shortestCallMs },
      size: (item) => operation.size(item),
    });
  }

  /** Lets requests go with the call of another replica; undefined where none can. */
  lend(room: number): Loan | undefined {
    // What waits here goes with the call that this one has.
    if (this.#isGathering) return undefined;
    const batch = this.#draw(room, true);
    if (batch.length === 0) return undefined;
    this.#stopIfEmpty();
    return lendBatch(batch, {
      timeoutMs: this.#options.timeoutMs,
      isWrite: (call) => this.#isWrite(call),
      add: (pending) => this.#add(pending),
      lose: (lost) => void this.#goOnAfterLoss(lost),
    });
  }

  host(items: readonly LentItem[], ms: number, tell: Tell): Promise<unknown> {
    const isRead = this.#options.operation.effect === 'read';
    return hostItems<Item, Result>(items, ms, { isRead, tell, add: (pending) => this.#add(pending) });
  }

  /** Another replica may have executed them. */
  async #goOnAfterLoss(batch: Pending<Item, Result>[]): Promise<void> {
    const { operation, name } = this.#options;
    const call: BatchCall = {
      ...startCall(`batch ${name}`),
      batcher: name,
      // What was begun goes on before all that is new.
      isWrite: batch.some((pending) => this.#isWrite(pending.call)),
      deadline: Math.min(...batch.map((pending) => pending.call.deadline)),
    };
    const failure = new CrmFailure('lost', 'another replica did not say what became of it', {
      outcomeUnknown: operation.effect !== 'read',
    });
    try {
      const items = batch.map(({ item }) => item);
      const outcomes = await executeAfterLoss(operation, items, failure, call, this.#splitOptions(call));
      for (const [index, pending] of batch.entries())
        this.#complete(pending, outcomes[index] as ItemOutcome<Result>);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  /** Where nothing waits any more, no call is waited for. */
  #stopIfEmpty(): void {
    if (this.#requests + this.#background.size > 0) return;
    clearTimeout(this.#linger);
    this.#linger = undefined;
    this.#waitingForBudget?.giveUp();
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
    if (ofItem === true && failure.kind === 'busy') void this.#retry(pending, failure);
    else pending.reject(failure);
  }

  /** Sends an item for which the CRM was too busy again after a pause, in the next batch. */
  async #retry(pending: Pending<Item, Result>, failure: CrmFailure): Promise<void> {
    pending.tries += 1;
    const pauseMs = this.#pauseFor(failure, pending.call, pending.tries);
    if (pauseMs === undefined) {
      pending.reject(failure);
      return;
    }
    await delay(pauseMs);
    pending.since = performance.now();
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

  #expire(pending: Pending<Item, Result>): void {
    const { budget } = this.#options.client;
    const isPaced = budget !== undefined && this.#waitingForBudget !== undefined;
    // The longest wait is one for the budget; otherwise the CRM is too slow.
    if (!isPaced && remainingMs(pending.call) > 0) {
      this.#arm(pending);
      return;
    }
    this.#queueOf(pending).delete(pending.tenant, pending);
    pending.leaveQueue();
    const kind = this.#isWrite(pending.call) ? 'write' : 'read';
    const isRequest = pending.call.background === undefined;
    pending.reject(isPaced ? budget.waitedTooLong(kind, isRequest) : crowded());
    this.#stopIfEmpty();
  }
}
