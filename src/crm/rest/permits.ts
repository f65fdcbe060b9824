import { type Call, remainingMs } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import { FairLimiter } from '../../platform/base/concurrency.ts';
import { Problem } from '../../platform/base/problem.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget, PaidCall } from '../budget/call-budget.ts';
import type { CallKind } from '../budget/call-queue.ts';
import { CrmFailure, queueFull } from '../failure.ts';
import type { AccessToken } from '../token/access-token.ts';
import type { TokenProvider } from '../token/token-provider.ts';
import {
  type CrmAnswer,
  type CrmRequest,
  countByConsumer,
  header,
  type Permit,
  sharersOf,
  tenantOf,
} from './request.ts';

/** Queue limit: requests that may wait for each slot, as many as one call can hold. More would only wait in vain. */
const waitingPerSlot = 200;
/** A call of a single request takes as much of a slot's time as a whole batch, so it weighs more. */
const singleCallWeight = 4;
/** Large pages that this process reads from the CRM at once, and those of one consumer: slow ones delay only its own. */
const largePages = { inAll: 16, ofOne: 4 };

const failuresToOpen = 5;
/** Pauses of the breaker, in milliseconds. */
const breakerPauses = { first: 1000, most: 15_000 };
/** While calls are refused for the quota, one is let through this often: only an answer shows that usage has fallen. */
const quotaProbeMs = 60_000;
/** After refusals by the CRM for the quota, in milliseconds. */
const quotaPauses = { first: 1000, most: quotaProbeMs };

export type TokensForCalls = Pick<TokenProvider, 'getToken' | 'accepted' | 'invalidate'>;

export interface PermitsOptions {
  maxConcurrency: number;
  /** A call with less time than this, in milliseconds, is not started. */
  shortestCallMs: number;
  tokens: TokensForCalls;
  gate: CallGate;
  budget?: CallBudget | undefined;
  metrics: Metrics;
  onOutcome: (failure: CrmFailure) => void;
}

export class Permits {
  readonly #options: PermitsOptions;
  readonly #slots: FairLimiter;
  readonly #largePages = new FairLimiter(largePages.inAll, largePages.ofOne);
  readonly #queueLimit: number;
  readonly #waitingOf = new Map<string, number>();
  #waiting = 0;

  constructor(options: PermitsOptions) {
    this.#options = options;
    this.#slots = new FairLimiter(options.maxConcurrency);
    this.#queueLimit = options.maxConcurrency * waitingPerSlot;
  }

  /** Whether a write would be admitted now. Throws `CrmFailure` or `Problem`. */
  check({ consumerId = '' }: Call): void {
    const { gate, budget } = this.#options;
    gate.check();
    // It may share a call that is waited for already, whatever its resource.
    const joins = (budget?.queue.before('write') ?? 0) > 0;
    budget?.admit('write', { tenant: '', consumer: consumerId }, { joins });
    this.#checkQueue(consumerId);
  }

  /**
   * Admits a request, or refuses it at once rather than after a wait in vain: the breaker is open, the quota is used up, or
   * too many wait, in all or of this consumer (half of the queue limit). It counts as waiting until the returned function is
   * called. Throws as `check`.
   */
  enter(effect: CrmRequest['effect'], call: Call, weight = 1): () => void {
    const { consumerId = '', isWrite, background } = call;
    if (background === 'probe') return () => {};
    // A write begins with looking the record up, and is a write all the same.
    this.#options.gate.admit(isWrite === true && effect === 'read' ? 'change' : effect);
    // Its queue is in the database: it does not count in this one.
    if (background !== undefined) return () => {};
    this.#checkQueue(consumerId);
    this.#count(consumerId, weight);
    let isWaiting = true;
    return () => {
      if (isWaiting) this.#count(consumerId, -weight);
      isWaiting = false;
    };
  }

  #checkQueue(consumer: string): void {
    const ofConsumer = this.#waitingOf.get(consumer) ?? 0;
    if (this.#waiting < this.#queueLimit && ofConsumer < this.#queueLimit / 2) return;
    this.#options.metrics.crmTurnedAway.inc({ reason: 'queue' });
    throw queueFull();
  }

  #count(consumer: string, weight: number): void {
    this.#waiting += weight;
    const sum = (this.#waitingOf.get(consumer) ?? 0) + weight;
    if (sum === 0) this.#waitingOf.delete(consumer);
    else this.#waitingOf.set(consumer, sum);
    this.#options.metrics.crmQueueDepth.level = this.#waiting;
  }

  /** A permit for the call of a new request, once it is admitted. It must be used or released. Throws `CrmFailure`, `Problem`. */
  async permitFor(effect: CrmRequest['effect'], call: Call): Promise<Permit> {
    const leaveQueue = this.enter(effect, call, singleCallWeight);
    try {
      return await this.acquire(call, await this.#payForNew(call));
    } finally {
      leaveQueue();
    }
  }

  async furtherPermit(call: Call): Promise<Permit> {
    return this.#permit(call, await this.#pay(call, remainingMs(call) - this.#options.shortestCallMs));
  }

  tryLargePage({ consumerId = '' }: Call): (() => void) | undefined {
    return this.#largePages.tryTake(consumerId);
  }

  /** Waits for a slot for a large page, while there is time for a call after that. Throws `Problem` (crm_unavailable). */
  largePage(call: Call): Promise<() => void> {
    const ms = remainingMs(call) - this.#options.shortestCallMs;
    return this.#largePages.take(call.consumerId ?? '', { ms, refusal: tooManyLargePages });
  }

  async #pay(call: Call, mostMs: number): Promise<PaidCall | undefined> {
    const { budget } = this.#options;
    if (budget === undefined) return undefined;
    const purpose = purposeOf(call);
    const requests = countByConsumer(sharersOf(call));
    const who = { tenant: tenantOf(call), requesters: () => requests };
    const paid = await budget.waitForCall(purpose, who, mostMs).paid;
    if (purpose !== 'poll') paid?.chargeTo(requests);
    return paid;
  }

  #payForNew(call: Call): Promise<PaidCall | undefined> {
    const { budget, shortestCallMs } = this.#options;
    const mostMs = remainingMs(call) - shortestCallMs;
    if (call.background !== undefined) return this.#pay(call, mostMs);
    budget?.admit(purposeOf(call), { tenant: tenantOf(call), consumer: call.consumerId ?? '' });
    return this.#pay(call, Math.min(budget?.maxWaitMs ?? 0, mostMs));
  }

  async acquire(call: Call, paid: PaidCall | undefined): Promise<Permit> {
    try {
      return await this.#permit(call, paid);
    } catch (error) {
      if (error instanceof CrmFailure) this.#options.onOutcome(error);
      throw error;
    }
  }

  async #permit(call: Call, paid: PaidCall | undefined): Promise<Permit> {
    try {
      const token = await this.getToken(call);
      const leaveSlot = await this.#slots.take(tenantOf(call), {
        ms: remainingMs(call),
        refusal: queueFull,
      });
      let isHeld = true;
      const release = (isSpent = false) => {
        if (!isHeld) return;
        isHeld = false;
        leaveSlot();
        if (!isSpent) paid?.giveBack();
      };
      return { token, release };
    } catch (error) {
      paid?.giveBack();
      throw error;
    }
  }

  /** A token for a call. Its failure is one like any other, so that health hears of it and an earlier try's unknown outcome is not lost. */
  async getToken(call: Call): Promise<AccessToken> {
    try {
      return await this.#options.tokens.getToken(call);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      throw new CrmFailure('no_token', error.message, { retryAfter: error.facts.retryAfter });
    }
  }
}

function purposeOf({ background, isWrite }: Call): CallKind {
  if (background === 'poll') return 'poll';
  return isWrite ? 'write' : 'read';
}

function tooManyLargePages(): Problem {
  return new Problem('crm_unavailable', 'Too many large pages are in progress.', { retryAfter: 1 });
}

export interface ApiUsage {
  used: number;
  limit: number;
  usedByApp?: number;
  /** When the CRM said so, by `monotonicMs()`. */
  at: number;
}

interface CallGateOptions {
  /** Calls of the daily quota that are kept for writes. */
  quotaReserve: number;
  log: Log;
  metrics: Metrics;
}

/**
 * Refuses calls at once that would wait in vain: while the CRM fails (the circuit breaker), and once the daily quota is used up.
 * States of the breaker:
 *
 *   closed    calls pass
 *   open      calls are refused at once, until `probeAt`
 *   probing   one call is in flight to see whether the CRM is back; the others are refused
 *
 *   closed -> open      this many calls in a row were not answered
 *   open -> probing     `probeAt` is over and a call comes
 *   probing -> closed   the CRM answered, whatever it said
 *   probing -> open     it did not: the pause doubles
 *   open -> closed      a call that was sent before is answered after all
 */
export class CallGate {
  readonly #options: CallGateOptions;
  #failures = 0;
  #isOpen = false;
  #isProbing = false;
  #pauses = 0;
  #probeAt = 0;
  #usage: ApiUsage | undefined;
  /** By `monotonicMs()`. */
  #usageProbeAt = 0;
  /** By `monotonicMs()`; undefined while the quota is not used up. */
  #heldUntil: number | undefined;
  #refusals = 0;

  constructor(options: CallGateOptions) {
    this.#options = options;
    options.metrics.crmBreakerOpen.set(0);
  }

  get usage(): ApiUsage | undefined {
    return this.#usage;
  }

  get isQuotaUsedUp(): boolean {
    return this.#heldUntil !== undefined;
  }

  /**
   * Throws `CrmFailure` (open, with Retry-After) where the breaker would refuse a call now, `Problem` (crm_quota_exhausted)
   * where the quota is used up.
   */
  check(): void {
    this.#checkBreaker();
    this.#checkQuota();
  }

  /**
   * Throws as `check`, and for a read where fewer calls than the reserve are left. Now and then a call is admitted all
   * the same, to see whether that still holds.
   */
  admit(effect: CrmRequest['effect']): void {
    this.check();
    const now = monotonicMs();
    if (this.#heldUntil !== undefined) this.#heldUntil = now + pauseAfter(this.#refusals + 1, quotaPauses);
    const { quotaReserve } = this.#options;
    if (quotaReserve === 0 || effect !== 'read' || this.#usage === undefined) return;
    if (this.#usage.limit - this.#usage.used >= quotaReserve) return;
    if (now < this.#usageProbeAt)
      this.#refuseForQuota('The rest of the daily quota of CRM calls is kept for writes.');
    this.#usageProbeAt = now + quotaProbeMs;
  }

  /**
   * Begins a call; true where it is the one that shows whether the CRM is back. Throws as `check` does for the breaker, unless it is a
   * probe of background work.
   */
  begin(background: Call['background']): boolean {
    if (background !== 'probe') this.#checkBreaker();
    if (this.#isOpen) this.#isProbing = true;
    return this.#isOpen;
  }

  /** Reads how much of the quota is used from any answer, also from a refusal. */
  noteUsage(answer: CrmAnswer): void {
    const found = parseLimitInfo(header(answer.headers, 'sforce-limit-info'));
    if (found === undefined) return;
    this.#usage = found;
    this.#usageProbeAt = monotonicMs() + quotaProbeMs;
    this.#options.metrics.crmApiUsage.set(found.used);
    this.#options.metrics.crmApiLimit.set(found.limit);
  }

  endAnswered(isProbe: boolean): void {
    this.#close();
    this.#release();
    if (isProbe) this.#isProbing = false;
  }

  endFailed(
    error: unknown,
    { isProbe, background }: { isProbe: boolean; background: Call['background'] },
  ): void {
    if (isUnanswered(error)) {
      if (background !== 'alone') this.#fail(isProbe);
    } else if (error instanceof CrmFailure && error.facts.status !== undefined) this.#close();
    if (error instanceof CrmFailure && error.kind === 'quota') {
      this.#refusals += 1;
      this.#heldUntil = monotonicMs() + pauseAfter(this.#refusals, quotaPauses);
    } else if (isOtherRefusal(error)) this.#release();
    if (isProbe) this.#isProbing = false;
  }

  #checkBreaker(): void {
    const leftMs = this.#probeAt - monotonicMs();
    if (!this.#isOpen || (leftMs <= 0 && !this.#isProbing)) return;
    this.#options.metrics.crmTurnedAway.inc({ reason: 'breaker' });
    const retryAfter = Math.max(1, Math.ceil(leftMs / 1000));
    throw new CrmFailure('open', 'the CRM failed call after call', { retryAfter });
  }

  #checkQuota(): void {
    if (this.#heldUntil !== undefined && monotonicMs() < this.#heldUntil)
      this.#refuseForQuota('The daily quota of CRM calls is used up.');
  }

  #refuseForQuota(detail: string): never {
    this.#options.metrics.crmTurnedAway.inc({ reason: 'quota' });
    throw new Problem('crm_quota_exhausted', detail, { retryAfter: quotaProbeMs / 1000 });
  }

  #close(): void {
    this.#failures = 0;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#pauses = 0;
    this.#options.metrics.crmBreakerOpen.set(0);
    this.#options.log.info({}, 'Salesforce answers again');
  }

  #fail(isProbe: boolean): void {
    this.#failures += 1;
    if (this.#isOpen ? !isProbe : this.#failures < failuresToOpen) return;
    this.#pauses += 1;
    this.#probeAt = monotonicMs() + pauseAfter(this.#pauses, breakerPauses);
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#options.metrics.crmBreakerOpen.set(1);
    this.#options.log.warn(
      { failures: this.#failures },
      "Salesforce doesn't answer; requests that need it are refused until it does",
    );
  }

  #release(): void {
    this.#heldUntil = undefined;
    this.#refusals = 0;
  }
}

/**
 * The CRM can't be reached or can't work. A refusal, a limit or a lock is an answer; so is an exception that the CRM names:
 * one record may bring it on time after time, and the others are served.
 */
function isUnanswered(error: unknown): boolean {
  if (!(error instanceof CrmFailure)) return false;
  if (error.kind === 'failed') return error.facts.error === undefined;
  if (error.kind === 'busy') return (error.facts.status ?? 0) >= 500;
  return error.kind === 'unreachable' || error.kind === 'lost' || error.kind === 'timeout';
}

function isOtherRefusal(error: unknown): boolean {
  if (!(error instanceof CrmFailure) || error.kind === 'session') return false;
  const { status = 0 } = error.facts;
  return status >= 400 && status < 500;
}

/** `api-usage=10018/100000`, with more after a semicolon, as `per-app-api-usage=17/250(appName=x)` (REST Developer Guide, Limit Info Header). */
function parseLimitInfo(value: string | undefined): ApiUsage | undefined {
  const parts = /(?:^|[;\s])api-usage=(\d{1,15})\/(\d{1,15})/.exec(value ?? '');
  if (parts === null) return undefined;
  const ofApp = /(?:^|[;\s])per-app-api-usage=(\d{1,15})\//.exec(value ?? '')?.[1];
  return {
    used: Number(parts[1]),
    limit: Number(parts[2]),
    at: monotonicMs(),
    ...(ofApp !== undefined && { usedByApp: Number(ofApp) }),
  };
}
