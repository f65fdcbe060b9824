import { clearTimeout, monotonicMs, randomUUID, setTimeout, sleep } from '../../platform/base/chance.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { budgetExhausted, type CrmFailure } from '../failure.ts';
import { Allowance } from './allowance.ts';
import {
  type BudgetLimits,
  type Grant,
  isOtherWrite,
  largestLease,
  type SyncRequest,
  syncEveryMs,
} from './bucket.ts';
import type { CallKind, CallQueue, NewRequest, Requests, Who } from './call-queue.ts';
import { type BudgetStore, OutcomeUnknown, SharedBucket } from './shared-bucket.ts';

/*
 * One replica's side of the budget. It holds a lease: calls that it has taken out of the shared bucket and not made yet. It
 * takes as many as requests wait for, and some ahead while there are plenty. It synchronizes with the bucket when a request
 * waits and a call may be available, after a call that it held none for, when its lease is unused, and every 20 s.
 *
 * While the bucket can't be reached, the replica makes calls at an equal share of the rate and without a burst. They are
 * counted in the bucket when it can be reached again.
 */

const idleMs = 1000;
/** Milliseconds: the age of what health shows is no greater. */
const freshMs = 1000;
/** Pause of a replica that got no call, as another one's write comes first, or that has just got the last call. */
const yieldMs = 50;
const retryMs = 1000;
const presumedReplicas = 4;

/** While calls are not short, one comes sooner than this: who has less time for it is refused for that, not for the budget. */
const promptMs = 1000;

export interface PaidCall {
  /** For a call that was not made after all. A second time does nothing. */
  giveBack(): void;
  /** Calls were short: it is worth waiting for requests of other replicas that can share this one. */
  readonly wasShort: boolean;
  chargeTo(requests: Requests): void;
}

export interface CallWait {
  /** Undefined where it was given up. Throws `CrmFailure` (budget_exhausted) where the maximum wait ended first. */
  readonly paid: Promise<PaidCall | undefined>;
  becomeWrite(): void;
  giveUp(): void;
}

interface CallBudgetOptions {
  dailyCalls: number;
  limits: BudgetLimits;
  store: BudgetStore;
  queue: CallQueue;
  orgUse?: () => { used: number; limit: number; at: number } | undefined;
  log: Log;
  metrics: Metrics;
}

export class CallBudget {
  readonly queue: CallQueue;
  readonly #options: CallBudgetOptions;
  readonly #limits: BudgetLimits;
  readonly #id = randomUUID().slice(0, 8);
  readonly #bucket: SharedBucket;
  #lease = 0;
  #leaseChangedAt = 0;
  #unleased = 0;
  #ownShare: Allowance | undefined;
  #syncing: Promise<void> | undefined;
  #syncedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #recent = { calls: 0, at: 0 };
  #pauseUntil = 0;
  #registeredWrite: number | undefined;
  #isStarted = false;
  #isStopped = false;

  constructor(options: CallBudgetOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.#limits = options.limits;
    this.#bucket = new SharedBucket(options.store, this.#limits);
    options.metrics.crmBudget.set(options.dailyCalls);
    options.metrics.crmBudgetUsed.set(0);
  }

  async start(): Promise<void> {
    // A connection that is being made takes a moment; a store that is unavailable is not waited for.
    for (let tries = 0; tries < 10 && !this.#bucket.isKnown; tries++) {
      if (tries > 0) await sleep(50);
      await this.#sync();
    }
    this.#isStarted = true;
    if (this.#ownShare) this.#logUnshared(presumedReplicas);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#syncing;
    await this.#sync(true);
  }

  get replicas(): number {
    return this.#ownShare ? 1 : this.#bucket.replicas;
  }

  /**
   * Calls of the last 24 hours, and how many there may be: of the service, and of the org, as any replica last learnt it. Until
   * one has, only those of the service are known.
   */
  async status(): Promise<{ used: number; limit: number; budget: number; budget_used: number }> {
    if (this.#bucket.age > freshMs && !this.#isStopped) await this.#sync();
    const { dailyCalls } = this.#options;
    const used = this.#noteUsed();
    const org = this.#options.orgUse?.() ?? this.#bucket.org ?? { used, limit: dailyCalls };
    return { used: org.used, limit: org.limit, budget: dailyCalls, budget_used: used };
  }

  /** Milliseconds until no call is free at the last hour's rate; 0: none is; Infinity: not within a day. */
  async exhaustedInMs(): Promise<number> {
    await this.status();
    return this.#bucket.exhaustedInMs;
  }

  charge(): void {
    if (this.#lease > 0) this.#lease -= 1;
    else this.#unleased += 1;
    this.serve();
  }

  get maxWaitMs(): number {
    return this.#limits.maxWaitMs;
  }

  get isShort(): boolean {
    return this.#available < 1;
  }

  get mustWait(): boolean {
    return this.#lease === 0 && this.isShort;
  }

  /** Milliseconds until this many calls can be made, as far as is known. */
  untilCallsMs(calls: number): number {
    const lacking = calls - this.#lease;
    return lacking <= 0 ? 0 : Math.max(0, lacking - this.#available) / this.#rate;
  }

  /** The part of a call that is each consumer's who asks; undefined while calls are not short. */
  get parts(): ReadonlyMap<string, number> | undefined {
    return this.isShort ? this.queue.shares.parts() : undefined;
  }

  /**
   * Refuses a request that would wait in vain. `joins`: it shares a call that is waited for already. `further`: calls that
   * other requests of its kind need first. Throws `CrmFailure` (budget_exhausted).
   */
  admit(kind: CallKind, who: NewRequest, { joins = false, further = 0 } = {}): void {
    this.queue.shares.asks(who.consumer);
    const calls = this.queue.before(kind, joins ? { ...who, heavyParts: 0 } : who);
    const ms = this.untilCallsMs(calls + (joins ? 0 : 1) + further);
    if (ms > this.maxWaitMs) throw this.#refusal(kind, ms, true);
  }

  /** Waits for a call, for `mostMs` milliseconds at most where that is given and calls are short. */
  waitForCall(kind: CallKind, who: Who, mostMs?: number): CallWait {
    const { promise, resolve, reject } = Promise.withResolvers<PaidCall | undefined>();
    const wasShort = this.mustWait;
    let timer: NodeJS.Timeout | undefined;
    const { leave, becomeWrite } = this.queue.add(kind, who, monotonicMs(), () => {
      clearTimeout(timer);
      resolve(newPaidCall(this, wasShort));
    });
    if (mostMs !== undefined) {
      timer = setTimeout(
        () => {
          const refusal = this.waitedTooLong(kind, kind !== 'poll');
          leave();
          reject(refusal);
        },
        wasShort ? mostMs : Math.max(mostMs, promptMs),
      );
    }
    this.serve();
    const giveUp = () => {
      clearTimeout(timer);
      leave();
      resolve(undefined);
      this.serve();
    };
    return { paid: promise, becomeWrite, giveUp };
  }

  waitedTooLong(kind: CallKind, isCounted: boolean): CrmFailure {
    return this.#refusal(kind, this.untilCallsMs(this.queue.before(kind)), isCounted);
  }

  #refusal(kind: CallKind, forecastMs: number, isCounted: boolean): CrmFailure {
    if (isCounted) this.#options.metrics.crmTurnedAway.inc({ reason: 'budget' });
    // A write that comes again at the start of its maximum wait is served before the reads that wait by then.
    const ms = kind === 'write' ? forecastMs - this.maxWaitMs : forecastMs;
    return budgetExhausted(Math.max(1, Math.ceil(ms / 1000)));
  }

  giveBack(): void {
    this.#changeLease(1);
    this.serve();
  }

  #changeLease(calls: number): void {
    this.#lease += calls;
    if (calls !== 0) this.#leaseChangedAt = monotonicMs();
  }

  serve(): void {
    while (this.#lease > 0) {
      const take = this.queue.next(this.#isPlenty);
      if (take === undefined) break;
      this.#changeLease(-1);
      this.#recent = { calls: this.#recentCalls + 1, at: monotonicMs() };
      take();
    }
    if (this.#isStopped || this.#syncing !== undefined) return;
    clearTimeout(this.#timer);
    const ms = this.#untilSyncMs();
    if (ms <= 0) void this.#sync();
    else {
      this.#timer = setTimeout(() => void this.#sync(), ms);
      if (this.queue.size === 0) this.#timer.unref();
    }
  }

  #untilSyncMs(): number {
    const isLow = this.queue.size === 0 && this.#lease < this.#ahead / 3;
    // A process that dies takes with it what the bucket hasn't counted.
    const isUncounted = this.#unleased > 0 && this.#ownShare === undefined;
    if (isLow || isUncounted || this.#isRegistrationOutdated) return 0;
    const untilIdleMs = this.#lease > 0 && !this.#ownShare ? this.#untilIdleMs : Number.POSITIVE_INFINITY;
    const untilRegularMs = this.#syncedAt + (this.#ownShare ? retryMs : syncEveryMs) - monotonicMs();
    return Math.min(untilIdleMs, untilRegularMs, this.#untilCallMs());
  }

  get #isRegistrationOutdated(): boolean {
    const registered = this.#registeredWrite;
    return registered !== undefined && isOtherWrite(registered, this.queue.demand(false).writeSince);
  }

  get #untilIdleMs(): number {
    return this.#leaseChangedAt + idleMs - monotonicMs();
  }

  #untilCallMs(): number {
    if (this.queue.size === 0) return Number.POSITIVE_INFINITY;
    const pauseMs = this.#pauseUntil - monotonicMs();
    if (this.#isPlenty) return pauseMs;
    const untilOneMs = Math.max(0, 1 - this.#available) / this.#rate;
    return Math.max(pauseMs, untilOneMs, this.queue.untilPollMs());
  }

  /** Never throws. */
  #sync(leaves = false): Promise<void> {
    this.#syncing ??= this.#syncOnce(leaves).finally(() => {
      this.#syncing = undefined;
      this.serve();
    });
    return this.#syncing;
  }

  async #syncOnce(leaves: boolean): Promise<void> {
    const returned = leaves || this.#untilIdleMs <= 0 ? this.#lease : 0;
    const unleased = this.#unleased;
    this.#changeLease(-returned);
    this.#syncedAt = monotonicMs();
    const { writes, reads, polls, writeSince } = this.queue.demand(this.#isPlenty);
    try {
      const grant = await this.#bucket.sync({
        replica: this.#id,
        returned,
        unleased,
        writes,
        reads,
        polls,
        leaves,
        ahead: returned > 0 ? 0 : Math.ceil(this.#ahead),
        most: largestLease - this.#lease,
        org: this.#orgUse(),
        writeWaitedMs: writeSince === undefined ? undefined : monotonicMs() - writeSince,
      });
      this.#unleased -= unleased;
      this.#registeredWrite = grant.writes < writes ? writeSince : undefined;
      this.#accept(grant);
    } catch (err) {
      // Where it is unknown whether they were returned, they stay counted: else they might be made twice.
      if (!(err instanceof OutcomeUnknown)) this.#changeLease(returned);
      // The registration expires in the bucket.
      this.#registeredWrite = undefined;
      this.#useOwnShare(err);
    }
    this.#noteUsed();
  }

  #orgUse(): SyncRequest['org'] {
    const reported = this.#options.orgUse?.();
    return reported && { used: reported.used, limit: reported.limit, ageMs: monotonicMs() - reported.at };
  }

  #accept({ writes, reads, ahead }: Grant): void {
    if (this.#ownShare && this.#isStarted)
      this.#options.log.info({}, 'the budget of Salesforce calls is shared again');
    this.#ownShare = undefined;
    const granted = writes + reads + ahead;
    this.#changeLease(granted);
    this.queue.serveReadsFirst(reads);
    if (this.queue.size === 0 || this.replicas === 1) return;
    const mustYield = granted === 0 || this.#bucket.available < 1;
    this.#pauseUntil = mustYield ? monotonicMs() + yieldMs : 0;
  }

  #useOwnShare(err: unknown): void {
    if (this.#ownShare === undefined) {
      const replicas = this.#bucket.isKnown ? this.#bucket.replicas : presumedReplicas;
      this.#ownShare = new Allowance(this.#limits.rate / replicas, 1, 0);
      if (this.#isStarted) this.#logUnshared(replicas, err);
    }
    if (this.queue.size === 0 || this.#lease > 0 || !this.#ownShare.take()) return;
    this.#changeLease(1);
    this.#unleased += 1;
  }

  #logUnshared(replicas: number, err?: unknown): void {
    this.#options.log.warn(
      { ...(err !== undefined && { err }), replicas },
      "the budget of Salesforce calls isn't shared; this replica keeps to its part",
    );
  }

  #noteUsed(): number {
    const used = Math.max(0, Math.round(this.#bucket.used) - this.#lease + this.#unleased);
    this.#options.metrics.crmBudgetUsed.set(used);
    this.#options.metrics.crmBudgetExhausted.set(this.#bucket.exhaustedInMs / 1000);
    return used;
  }

  get #rate(): number {
    return (this.#ownShare ?? this.#limits).rate;
  }

  get #available(): number {
    return (this.#ownShare ?? this.#bucket).available;
  }

  get #isPlenty(): boolean {
    return !this.#ownShare && this.#available >= this.#limits.burst / 2;
  }

  get #recentCalls(): number {
    return this.#recent.calls * Math.exp((this.#recent.at - monotonicMs()) / 1000);
  }

  get #ahead(): number {
    const calls = Math.min(largestLease, this.#recentCalls);
    const isUsed = monotonicMs() - this.#recent.at < idleMs;
    if (calls < 2 || this.#ownShare || !isUsed) return 0;
    return this.#available - calls - 1 >= this.#limits.burst / 2 ? calls : 0;
  }
}

function newPaidCall(budget: CallBudget, mustWait: boolean): PaidCall {
  const wasShort = mustWait || budget.isShort;
  let isSpent = false;
  return {
    wasShort,
    chargeTo(requests) {
      if (wasShort) budget.queue.shares.charge(requests);
    },
    giveBack() {
      if (isSpent) return;
      isSpent = true;
      budget.giveBack();
    },
  };
}
