import { remainingMs } from '../../platform/base/call.ts';
import { monotonicMs, sleep } from '../../platform/base/chance.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { ItemOutcome, Operation } from '../batching/operation.ts';
import { splitUp, type Verdict } from '../batching/split.ts';
import { CrmFailure, type FailureKind, isCertainlyUnsent, isTooMuch } from '../failure.ts';
import type { BatchCall, Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { isOfRecords, withUnknownOutcome } from '../rest/retry.ts';
import type { QueuedRequest, RequestKind } from './request-kind.ts';

const mostRepeats = 2;

interface BatchRunOptions {
  kind: RequestKind;
  requests: readonly QueuedRequest[];
  call: BatchCall;
  scheduler: {
    add(kind: RequestKind, request: QueuedRequest): void;
  };
  client: Pick<CrmClient, 'retryBudget' | 'shortestCallMs'>;
  metrics: Metrics;
}

type Outcome = ItemOutcome<unknown>;

interface Run {
  call: BatchCall;
  repeatsLeft: number;
  scope: 'whole' | 'half' | 'part';
  isRolledBack?: boolean;
}

/**
 * Executes the requests of one batch to the end, whatever happens to the call, and settles each of them:
 *
 *   an item's failure is ambiguous                  it is sent alone
 *   another item may be at fault                    those that are refused are sent in parts, see `split.ts`
 *   a write has an unknown outcome                  it is reconciled; what is not done is sent again, in halves
 *   a read took too long                            it is sent in halves, down to one item
 *   anything else                                   is the failure of all
 */
export class BatchRun {
  readonly #options: BatchRunOptions;
  readonly #operation: Operation<unknown, unknown>;
  readonly #run: Run;
  readonly #open: Set<QueuedRequest>;
  #isAfterLoss = false;

  constructor(options: BatchRunOptions) {
    const { kind, requests } = options;
    this.#options = options;
    this.#operation = kind.operation;
    this.#open = new Set(requests);
    const call: BatchCall = {
      ...options.call,
      deadline: Math.min(...requests.map(({ deadline }) => deadline)),
      // Calls beyond this one are part of a write that was begun.
      isWrite: requests.some((request) => kind.isWriteOf(request.call)),
      // The call is a span of the first request's trace; the other requests only log its time.
      span: requests[0]?.call.span ?? options.call.span,
    };
    this.#run = { call, repeatsLeft: mostRepeats, scope: 'whole' };
  }

  /** Sends them, in one call at first; resolves with the milliseconds that it took, undefined where it was sent again in parts. Never throws. */
  async send(permit: Permit): Promise<number | undefined> {
    const { requests } = this.#options;
    const startedAt = monotonicMs();
    let ms: number | undefined;
    try {
      const outcomes = await this.#execute(requests, this.#run, permit);
      if (this.#open.size === requests.length) ms = monotonicMs() - startedAt;
      this.#settleAll(outcomes);
    } catch (error) {
      this.#rejectAll(error);
    } finally {
      permit.release();
    }
    return ms;
  }

  /** Goes on after a call of another replica that may have executed them, as after a lost answer. Never throws. */
  async afterLoss(lost: CrmFailure): Promise<void> {
    const { requests } = this.#options;
    this.#isAfterLoss = this.#operation.reconcile !== undefined;
    try {
      this.#settleAll(
        this.#isAfterLoss
          ? await this.#reconcile(requests, lost, this.#run)
          : await this.#execute(requests, this.#run),
      );
    } catch (error) {
      this.#rejectAll(error);
    }
  }

  async #execute(requests: readonly QueuedRequest[], run: Run, permit?: Permit): Promise<Outcome[]> {
    let verdicts: Verdict<unknown>[];
    try {
      const outcomes = await this.#callWith(requests, run, permit);
      // As in nearly all calls.
      if (outcomes.every((outcome) => 'result' in outcome)) return outcomes;
      verdicts = readOutcomes(outcomes);
    } catch (error) {
      return this.#afterFailure(requests, asFailure(error), run);
    }
    const isSettled = requests.length < 2 || verdicts.every(({ again }) => again === undefined);
    return isSettled ? verdicts.map(({ outcome }) => outcome) : this.#split(requests, verdicts, run);
  }

  /** Throws `CrmFailure` where the call failed as a whole. */
  #callWith(requests: readonly QueuedRequest[], { call }: Run, permit?: Permit): Promise<Outcome[]> {
    // Parts of a batch are not for all of its consumers.
    call.sharers = requests.map(consumerOf);
    return this.#operation.execute(requests.map(itemOf), call, permit);
  }

  async #afterFailure(requests: readonly QueuedRequest[], failure: CrmFailure, run: Run): Promise<Outcome[]> {
    if (failure.outcomeUnknown && this.#operation.reconcile !== undefined)
      return this.#reconcile(requests, failure, run);
    if (requests.length > 1 && isOfOne(failure, this.#operation))
      return this.#split(requests, sameForAll(requests, failure), run);
    if (requests.length > 1 && (failure.kind === 'timeout' || isTooMuch(failure)))
      return this.#inHalves(requests, run);
    return requests.map(() => ({ failure }));
  }

  async #split(
    requests: readonly QueuedRequest[],
    verdicts: readonly Verdict<unknown>[],
    run: Run,
  ): Promise<Outcome[]> {
    const { metrics, kind } = this.#options;
    const { call, scope } = run;
    const outcomes: Outcome[] = [];
    const startedAt = monotonicMs();
    if (scope !== 'part') metrics.crmBatchSplits.inc({ object: kind.object });
    // Once a part has waited for a call of the budget as long as there was time, there is none for any other part.
    let exhausted: CrmFailure | undefined;
    const passedTogether = await splitUp(requests, verdicts, {
      send: async (part) => {
        const unsent = exhausted;
        if (unsent !== undefined) return part.map(() => ({ outcome: { failure: unsent } }));
        const found = await this.#sendPart(part, { ...run, call: { ...call } });
        exhausted ??= found.map(({ outcome }) => 'failure' in outcome && outcome.failure).find(isOfBudget);
        return found;
      },
      settle: (index, outcome) => {
        outcomes[index] = outcome;
        if (scope === 'whole') this.#settle(requests[index] as QueuedRequest, outcome);
      },
      pause: (failure) => this.#pause(failure, 1),
    });
    // Parts are in flight at the same time.
    call.crmMs += monotonicMs() - startedAt;
    if (passedTogether !== undefined && scope !== 'part')
      kind.objectSize.lower(passedTogether, requests.length);
    return outcomes;
  }

  async #sendPart(part: readonly QueuedRequest[], run: Run): Promise<Verdict<unknown>[]> {
    const { call, isRolledBack = false } = run;
    try {
      return readOutcomes(await this.#callWith(part, run));
    } catch (error) {
      const failure = asFailure(error);
      const isKnown = !failure.outcomeUnknown || (isRolledBack && isOfRecords(failure));
      if (isKnown && isOfOne(failure, this.#operation)) return sameForAll(part, failure);
      // It was sent several times already.
      const repeatsLeft = isRolledBack ? 0 : 1;
      const outcomes = await this.#afterFailure(part, failure, { call, repeatsLeft, scope: 'part' });
      return outcomes.map((outcome) => ({ outcome }));
    }
  }

  async #inHalves(requests: readonly QueuedRequest[], run: Run): Promise<Outcome[]> {
    const { call, scope } = run;
    const middle = Math.ceil(requests.length / 2);
    const halves = [requests.slice(0, middle), requests.slice(middle)]
      .filter(({ length }) => length > 0)
      .map((half) => ({ half, ownCall: { ...call, crmMs: 0 } }));
    const halfRun: Run = { ...run, scope: scope === 'whole' ? 'half' : scope };
    const outcomes = await Promise.all(
      halves.map(({ half, ownCall }) => this.#execute(half, { ...halfRun, call: ownCall })),
    );
    // They were in flight at the same time.
    call.crmMs += Math.max(...halves.map(({ ownCall }) => ownCall.crmMs));
    return outcomes.flat();
  }

  async #reconcile(requests: readonly QueuedRequest[], failure: CrmFailure, run: Run): Promise<Outcome[]> {
    const operation = this.#operation;
    const { call, scope } = run;
    const unknown = { failure };
    call.sharers = requests.map(consumerOf);
    const reconciled = await operation.reconcile?.(requests.map(itemOf), call).catch(() => undefined);
    if (reconciled === undefined) return requests.map(() => unknown);
    const open = requests.filter((_, index) => reconciled[index] === 'not done');
    const repeated = await this.#repeat(open, failure, {
      ...run,
      scope: scope === 'whole' ? 'half' : scope,
    });
    const next = repeated.values();
    return reconciled.map((found) => {
      if (found !== 'not done') return found === 'unknown' ? unknown : found;
      const outcome: Outcome = next.next().value ?? unknown;
      if (!('failure' in outcome)) return outcome;
      if (outcome.failure.kind === 'gone' && operation.whenGone !== undefined) return operation.whenGone;
      if (outcome.failure.kind === 'ended') return unknown;
      // The first call may still be at work: a repeat without a final answer leaves the outcome unknown.
      return { failure: withUnknownOutcome(outcome.failure) };
    });
  }

  async #repeat(open: readonly QueuedRequest[], failure: CrmFailure, run: Run): Promise<Outcome[]> {
    const { repeatsLeft } = run;
    if (open.length === 0) return [];
    // Each half may take less time; so one slow record delays only itself.
    if (open.length > 1 && failure.kind === 'timeout') return this.#inHalves(open, run);
    if (repeatsLeft === 0) return [];
    const next = { ...run, repeatsLeft: repeatsLeft - 1 };
    if (open.length > 1 && isOfRecords(failure))
      return this.#split(open, sameForAll(open, failure), { ...next, isRolledBack: true });
    const mayRepeat = await this.#pause(failure, mostRepeats - repeatsLeft + 1);
    return mayRepeat ? this.#inHalves(open, next) : [];
  }

  async #pause(failure: CrmFailure, tried: number): Promise<boolean> {
    if (this.#isAfterLoss) return true;
    const { retryBudget } = this.#options.client;
    const pauseMs = retryBudget.pauseBeforeRepeat(failure, this.#run.call, tried);
    if (pauseMs !== undefined) await sleep(pauseMs);
    return pauseMs !== undefined;
  }

  #settleAll(outcomes: readonly Outcome[]): void {
    for (const [index, request] of this.#options.requests.entries())
      this.#settle(request, outcomes[index] as Outcome);
  }

  #rejectAll(error: unknown): void {
    for (const { reject } of this.#options.requests) reject(error);
  }

  #settle(request: QueuedRequest, outcome: Outcome): void {
    const { kind, scheduler } = this.#options;
    if (!this.#open.delete(request)) return;
    request.call.crmMs += this.#run.call.crmMs;
    if ('result' in outcome) request.resolve(outcome.result);
    else if (outcome.ofItem === true && outcome.failure.kind === 'busy')
      void this.#sendAgain(request, outcome.failure);
    else if (this.#hasTimeOfItsOwn(request, outcome.failure)) scheduler.add(kind, request);
    else request.reject(outcome.failure);
  }

  #hasTimeOfItsOwn({ call }: QueuedRequest, failure: CrmFailure): boolean {
    return isOfBudget(failure) && remainingMs(call) > this.#options.client.shortestCallMs;
  }

  async #sendAgain(request: QueuedRequest, failure: CrmFailure): Promise<void> {
    const { kind, scheduler, client } = this.#options;
    request.tries += 1;
    const pauseMs = client.retryBudget.pauseBeforeRepeat(failure, request.call, request.tries);
    if (pauseMs === undefined) {
      request.reject(failure);
      return;
    }
    await sleep(pauseMs);
    request.since = monotonicMs();
    scheduler.add(kind, request);
  }
}

const itemOf = ({ item }: QueuedRequest): unknown => item;
const consumerOf = ({ call }: QueuedRequest): string | undefined => call.consumerId;

/** Throws what is no failure of a call. */
function asFailure(error: unknown): CrmFailure {
  if (!(error instanceof CrmFailure)) throw error;
  return error;
}

function readOutcomes(outcomes: readonly Outcome[]): Verdict<unknown>[] {
  const failures = outcomes.filter((outcome) => 'failure' in outcome);
  const isOneMoreRefused = failures.some(({ failure }) => failure.kind !== 'duplicate');
  return outcomes.map((outcome) => {
    if (!('failure' in outcome) || outcome.ofItem !== true) return { outcome };
    if (outcome.isAmbiguous) return { outcome, again: 'alone' };
    const { kind, facts } = outcome.failure;
    // The duplicate may be a record of this batch that was not created.
    const isOthers = facts.mayBeOthers || (kind === 'duplicate' && isOneMoreRefused);
    return isOthers ? { outcome, again: 'parts' } : { outcome };
  });
}

function sameForAll(requests: readonly unknown[], failure: CrmFailure): Verdict<never>[] {
  return requests.map(() => ({ outcome: { failure }, again: 'parts' }));
}

function isOfBudget(failure: CrmFailure | false): failure is CrmFailure {
  return failure !== false && failure.kind === 'budget_exhausted' && isCertainlyUnsent(failure);
}

const spoiled: readonly FailureKind[] = ['rejected', 'reference', 'duplicate', 'conflict', 'gone', 'broken'];

function isOfOne(failure: CrmFailure, { effect }: Operation<unknown, unknown>): boolean {
  const { kind, facts } = failure;
  if (effect === 'read') return false;
  if (kind === 'failed' || kind === 'locked') return true;
  const { status } = facts;
  return spoiled.includes(kind) && status !== undefined && status >= 400 && status < 500;
}
