import { type Call, remainingMs } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget, PaidCall } from '../budget/call-budget.ts';
import type { CallKind } from '../budget/waiters.ts';
import type { AccessToken } from '../token/access-token.ts';
import type { TokenProvider } from '../token/token-provider.ts';
import type { Breaker } from './breaker.ts';
import { CrmFailure, type DisconnectedBy, disconnectedBy, isUnsent, queueFull } from './failure.ts';
import type { CallQuota } from './quota.ts';
import { type CrmRequest, countByConsumer, type Permit, sharersOf, tenantOf } from './request.ts';
import { Slots } from './slots.ts';

/** Queue limit: requests that may wait for each slot, as many as one call can hold. More would only wait in vain. */
const waitingPerSlot = 200;
/** A call of a single request takes as much of a slot's time as a whole batch, so it weighs more. */
const singleCallWeight = 4;
/** Large pages that this process reads from the CRM at once, and those of one consumer: slow ones delay only its own. */
const largePages = { inAll: 16, ofOne: 4 };

/** What a call needs of the provider of tokens. */
export type TokensForCalls = Pick<TokenProvider, 'getToken' | 'accepted' | 'invalidate'>;

export interface PermitsOptions {
  /** Calls in flight at most. */
  maxConcurrency: number;
  /** A call with less time than this, in milliseconds, is not started. */
  shortestCallMs: number;
  tokens: TokensForCalls;
  breaker: Breaker;
  quota: CallQuota;
  budget?: CallBudget | undefined;
  metrics: Metrics;
  /** Called where a call fails before it is sent: why the CRM counts as not connected. */
  onOutcome: (disconnected: DisconnectedBy | undefined) => void;
}

/** Decides which requests are admitted, and which calls are made: each needs a call of the budget, a token and a slot. */
export class Permits {
  readonly #options: PermitsOptions;
  readonly #slots: Slots;
  readonly #largePages = new Slots(largePages.inAll, largePages.ofOne);
  readonly #queueLimit: number;
  readonly #waitingOf = new Map<string, number>();
  #waiting = 0;

  constructor(options: PermitsOptions) {
    this.#options = options;
    this.#slots = new Slots(options.maxConcurrency);
    this.#queueLimit = options.maxConcurrency * waitingPerSlot;
  }

  /** Whether a write would be admitted now. Throws `CrmFailure` or `Problem`. */
  check({ consumerId = '' }: Call): void {
    const { breaker, quota, budget } = this.#options;
    breaker.check();
    quota.check();
    budget?.checkForWrite(consumerId);
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
    this.#options.breaker.check();
    // A write begins with looking the record up, and is a write all the same.
    this.#options.quota.admit(isWrite === true && effect === 'read' ? 'change' : effect);
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

  /** What the call of a new request needs, once it is admitted. To be used or released. Throws `CrmFailure`, `Problem`. */
  async permitFor(effect: CrmRequest['effect'], call: Call): Promise<Permit> {
    const leaveQueue = this.enter(effect, call, singleCallWeight);
    try {
      return await this.acquire(call, await this.#payForNew(call));
    } finally {
      leaveQueue();
    }
  }

  /** The same for a further call of a request that has begun: it may wait as long as there is time for it. */
  async furtherPermit(call: Call): Promise<Permit> {
    return this.#permit(call, await this.#pay(call, remainingMs(call) - this.#options.shortestCallMs));
  }

  /** The slot for a large page; undefined where none is free. */
  tryLargePage({ consumerId = '' }: Call): (() => void) | undefined {
    return this.#largePages.tryTake(consumerId);
  }

  /** The same once one is free, while there is time for a call after that. Throws `Problem` (crm_unavailable). */
  largePage(call: Call): Promise<() => void> {
    const mostMs = remainingMs(call) - this.#options.shortestCallMs;
    return this.#largePages.take(call.consumerId ?? '', mostMs, tooManyLargePages);
  }

  /** A call of the budget where there is one, within so many milliseconds if need be. Throws `CrmFailure` (budget_exhausted). */
  async #pay(call: Call, mostMs: number): Promise<PaidCall | undefined> {
    const { budget } = this.#options;
    if (budget === undefined) return undefined;
    const purpose = purposeOf(call);
    const requests = countByConsumer(sharersOf(call));
    const who = { tenant: tenantOf(call), requesters: () => requests };
    const paid = await budget.wait(purpose, who, mostMs).paid;
    if (purpose !== 'poll') paid?.chargeTo(requests);
    return paid;
  }

  /** The same for a new request: refused at once if it would wait in vain, and waits for `maxWaitMs` at most. */
  #payForNew(call: Call): Promise<PaidCall | undefined> {
    const { budget, shortestCallMs } = this.#options;
    const mostMs = remainingMs(call) - shortestCallMs;
    if (call.background !== undefined) return this.#pay(call, mostMs);
    budget?.check(purposeOf(call), { tenant: tenantOf(call), consumer: call.consumerId ?? '' });
    return this.#pay(call, Math.min(budget?.maxWaitMs ?? 0, mostMs));
  }

  /** The permit of a new call. Its failure may show that the CRM is not connected. */
  async acquire(call: Call, paid: PaidCall | undefined): Promise<Permit> {
    try {
      return await this.#permit(call, paid);
    } catch (error) {
      if (error instanceof CrmFailure && !isUnsent(error)) this.#options.onOutcome(disconnectedBy(error));
      throw error;
    }
  }

  /** A token, then a slot, for a call of the budget that is paid; that goes back where there is none. */
  async #permit(call: Call, paid: PaidCall | undefined): Promise<Permit> {
    try {
      const token = await this.getToken(call);
      const leaveSlot = await this.#slots.take(tenantOf(call), remainingMs(call), queueFull);
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

/** What a call of the budget is for. */
function purposeOf({ background, isWrite }: Call): CallKind {
  if (background === 'poll') return 'poll';
  return isWrite ? 'write' : 'read';
}

function tooManyLargePages(): Problem {
  return new Problem('crm_unavailable', 'Too many large pages are in progress.', { retryAfter: 1 });
}
