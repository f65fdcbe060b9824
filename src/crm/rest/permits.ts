import { type Call, remainingMs } from '../../platform/base/call.ts';
import { FairLimiter } from '../../platform/base/concurrency.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { CallBudget, PaidCall } from '../budget/call-budget.ts';
import type { CallKind } from '../budget/call-queue.ts';
import { CrmFailure, queueFull } from '../failure.ts';
import type { AccessToken } from '../token/access-token.ts';
import type { TokenProvider } from '../token/token-provider.ts';
import type { CallGate } from './call-gate.ts';
import { type CrmRequest, countByConsumer, type Permit, sharersOf, tenantOf } from './request.ts';

/** Queue limit: requests that may wait for each slot, as many as one call can hold. More would only wait in vain. */
const waitingPerSlot = 200;
/** A call of a single request takes as much of a slot's time as a whole batch, so it weighs more. */
const singleCallWeight = 4;
/** Large pages that this process reads from the CRM at once, and those of one consumer: slow ones delay only its own. */
const largePages = { inAll: 16, ofOne: 4 };

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
