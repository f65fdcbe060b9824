import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import {
  type BudgetLimits,
  type Grant,
  isOtherWrite,
  largestLease,
  limitsOf,
  visitEveryMs,
} from './bucket.ts';
import type { BudgetStore } from './budget-store.ts';
import { OutcomeUnknown, SharedBucket } from './shared-bucket.ts';
import { type CallKind, type Place, Waiters } from './waiters.ts';

/*
 * One replica's side of the budget. It holds a lease: calls that it has taken out of the bucket and not made yet, as few
 * as wait for one, and some ahead where there are plenty. It visits the bucket when somebody waits and a call may be
 * there, when its lease lies unused, and every 20 s. A visit is in one of two states:
 *
 *   shared   the bucket was reached: calls come out of it
 *   alone    it was not: calls come at this replica's share of the rate, none at once, and are added to the bucket later
 */

/** A lease that was not touched for so long goes back. */
const idleMs = 1000;
/** What health shows is no older. */
const freshMs = 1000;
/** Pause before the next visit of one that yielded to another replica's write, or has just had a call. */
const yieldMs = 50;
const restMs = 100;
/** Between visits while the bucket cannot be reached. */
const tryAgainMs = 1000;
/** The share of a replica that has never reached the bucket, and so knows nothing of others. */
const unknownReplicas = 4;

/** A call of the budget that may be made now. */
export interface PaidCall {
  /** Nothing was sent. */
  giveBack(): void;
  /** The budget was short, so that company is worth waiting for. */
  readonly wasShort: boolean;
}

/** One that waits for a call. */
export interface Waiting {
  /** Undefined where it was given up. Throws the refusal where it has waited too long first. */
  readonly paid: Promise<PaidCall | undefined>;
  /** From now on it waits for a write. */
  becomeWrite(): void;
  giveUp(): void;
}

export interface CallBudgetOptions {
  dailyCalls: number;
  maxWaitMs: number;
  store: BudgetStore;
  /** The failure of a request that gets no call: one may be there after so many seconds. */
  refusal: (retryAfter: number) => Error;
  /** Aborted when the service stops. */
  stopping?: AbortSignal | undefined;
  log: Log;
  metrics: Metrics;
}

export class CallBudget {
  readonly maxWaitMs: number;
  /** Aborted when the service stops: then nothing waits here that waits in the database too. */
  readonly stopping: AbortSignal | undefined;
  readonly #options: CallBudgetOptions;
  readonly #limits: BudgetLimits;
  readonly #id = randomUUID().slice(0, 8);
  readonly #bucket: SharedBucket;
  readonly #waiters: Waiters;
  #lease = 0;
  /** Calls that were made without the bucket. */
  #owed = 0;
  /** While the bucket cannot be reached: this replica's part of the rate, and what of it has come together. */
  #alone: { rate: number; calls: number; at: number } | undefined;
  #visiting: Promise<void> | undefined;
  #looking: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #regular: NodeJS.Timeout | undefined;
  /** Calls in the last second or so. */
  #recent = { calls: 0, at: 0 };
  /** No visit for those that wait before it, by `performance.now()`. */
  #restUntil = 0;
  /** Since when the write waits that the bucket was told of, by `performance.now()`. */
  #toldOfWrite: number | undefined;
  #isStarted = false;
  #isStopped = false;

  constructor(options: CallBudgetOptions) {
    this.#options = options;
    this.maxWaitMs = options.maxWaitMs;
    this.stopping = options.stopping;
    this.#limits = limitsOf(options.dailyCalls, options.maxWaitMs);
    this.#bucket = new SharedBucket(options.store, this.#limits);
    this.#waiters = new Waiters(this.#limits);
    options.metrics.crmBudget.set(options.dailyCalls);
    options.metrics.crmBudgetUsed.set(0);
  }

  /** Reaches for the bucket, and comes by regularly from now on. Never throws. */
  async start(): Promise<void> {
    this.#regular = setInterval(() => void this.#visit({}), visitEveryMs).unref();
    // A connection that is being made takes a moment; a cache that is away is not waited for.
    for (let tries = 0; tries < 10 && !this.#bucket.isKnown; tries++) {
      if (tries > 0) await delay(50);
      await this.#visit({});
    }
    this.#isStarted = true;
    if (this.#alone) this.#tellAlone(unknownReplicas);
  }

  /** Gives back what is left. Nobody may wait any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#regular);
    clearTimeout(this.#timer);
    clearTimeout(this.#idleTimer);
    await this.#visiting;
    await this.#visit({ returns: true, leaves: true });
  }

  /** Replicas that share the bucket, as last seen; 1 while it cannot be reached. */
  get replicas(): number {
    return this.#alone ? 1 : this.#bucket.replicas;
  }

  /** Calls of the last 24 hours, and how many there may be. */
  async status(): Promise<{ budget: number; budget_used: number }> {
    if (this.#bucket.age > freshMs) {
      this.#looking ??= this.#bucket.look().finally(() => {
        this.#looking = undefined;
      });
      await this.#looking;
    }
    const used = this.#used();
    this.#options.metrics.crmBudgetUsed.set(used);
    return { budget: this.#options.dailyCalls, budget_used: used };
  }

  /** A call that is made whatever the budget says. */
  charge(): void {
    if (this.#lease > 0) this.#lease -= 1;
    else this.#owed += 1;
  }

  /**
   * Throws the refusal where a request would wait in vain for its call: `further` are the calls that others of
   * its kind need first, `joins` says that it shares a call which is being waited for.
   */
  check(kind: CallKind, { joins = false, further = 0 } = {}): void {
    const ms = this.#forecastMs(kind, joins, further);
    if (ms <= this.maxWaitMs) return;
    this.#noteRefusal();
    throw this.#refusal(kind, ms);
  }

  /** The same for a write of any kind, which may share a call that is waited for already. */
  checkForWrite(): void {
    this.check('write', { joins: this.#waiters.before('write') > 0 });
  }

  /** Stands in line for a call, for so long at most; for ever where no time is given. */
  wait(kind: CallKind, tenant: string, mostMs?: number): Waiting {
    const { promise, resolve, reject } = Promise.withResolvers<PaidCall | undefined>();
    const wasShort = this.#lease === 0 && this.#availableNow() < 1;
    let place: Place | undefined;
    let timer: NodeJS.Timeout | undefined;
    const leave = () => {
      clearTimeout(timer);
      place?.leave();
      place = undefined;
    };
    const since = performance.now();
    place = this.#waiters.add(kind, tenant, since, () => {
      clearTimeout(timer);
      place = undefined;
      resolve(this.#pay(wasShort));
    });
    if (mostMs !== undefined) {
      timer = setTimeout(() => {
        const ms = this.#forecastMs(kind, true, 0);
        leave();
        if (kind !== 'poll') this.#noteRefusal();
        reject(this.#refusal(kind, ms));
      }, mostMs);
    }
    this.#serve();
    return {
      paid: promise,
      becomeWrite: () => place?.becomeWrite(),
      giveUp: () => {
        leave();
        resolve(undefined);
        this.#serve();
      },
    };
  }

  /** The failure of a request, or of work that is done later, that has waited too long. */
  waitedTooLong(kind: CallKind, isRequest: boolean): Error {
    if (isRequest) this.#noteRefusal();
    return this.#refusal(kind, this.#forecastMs(kind, true, 0));
  }

  #noteRefusal(): void {
    this.#options.metrics.crmTurnedAway.inc({ reason: 'budget' });
  }

  /** A write comes again while it may still wait for the call: then a read that waits already does not take it first. */
  #refusal(kind: CallKind, forecastMs: number): Error {
    const ms = kind === 'write' ? forecastMs - this.maxWaitMs : forecastMs;
    return this.#options.refusal(Math.max(1, Math.ceil(ms / 1000)));
  }

  #pay(wasShort: boolean): PaidCall {
    const now = performance.now();
    this.#recent.calls = this.#recentCalls(now) + 1;
    this.#recent.at = now;
    let isSpent = false;
    return {
      wasShort: wasShort || this.#availableNow() < 1,
      giveBack: () => {
        if (isSpent) return;
        isSpent = true;
        this.#lease += 1;
        this.#serve();
      },
    };
  }

  #recentCalls(now: number): number {
    return this.#recent.calls * Math.exp((this.#recent.at - now) / 1000);
  }

  /** Hands out what is in the lease, and sees to it that there will be more. */
  #serve(): void {
    while (this.#lease > 0) {
      const take = this.#waiters.next(this.#isPlenty());
      if (take === undefined) break;
      this.#lease -= 1;
      take();
    }
    if (this.#isStopped) return;
    if (this.#isMarkOutdated()) this.#visitIn(0);
    if (this.#waiters.size > 0 || this.#alone || this.#lease < this.#ahead() / 3)
      this.#visitIn(this.#untilNextMs());
    if (this.#lease > 0) this.#idleTimer ??= setTimeout(() => this.#returnIdle(), idleMs).unref();
  }

  /** The write that others let go first has gone, with the call of another replica, say. */
  #isMarkOutdated(): boolean {
    const told = this.#toldOfWrite;
    return told !== undefined && isOtherWrite(told, this.#waiters.wanted(false).writeSince);
  }

  #returnIdle(): void {
    this.#idleTimer = undefined;
    if (this.#lease === 0) return;
    const leftMs = this.#recent.at + idleMs - performance.now();
    if (leftMs > 0) this.#idleTimer = setTimeout(() => this.#returnIdle(), leftMs).unref();
    else void this.#visit({ returns: true });
  }

  #visitIn(ms: number): void {
    if (this.#visiting !== undefined || this.#isStopped) return;
    if (ms <= 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      void this.#visit({});
    } else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        void this.#visit({});
      }, ms);
      if (this.#waiters.size === 0) this.#timer.unref();
    }
  }

  /** One visit at a time. Never throws. */
  #visit(how: { returns?: boolean; leaves?: boolean }): Promise<void> {
    this.#visiting ??= this.#visitOnce(how).finally(() => {
      this.#visiting = undefined;
      this.#serve();
    });
    return this.#visiting;
  }

  async #visitOnce({ returns, leaves }: { returns?: boolean; leaves?: boolean }): Promise<void> {
    const returned = returns ? this.#lease : 0;
    const owed = this.#owed;
    this.#lease -= returned;
    this.#owed = 0;
    try {
      const most = largestLease - this.#lease;
      const { writes, reads, writeSince } = this.#waiters.wanted(this.#isPlenty());
      const grant = await this.#bucket.visit({
        ...{ replica: this.#id, returned, owed, writes, reads, most, leaves: leaves === true },
        // What is given back is not taken again.
        ahead: returns ? 0 : Math.ceil(this.#ahead()),
        writeWaitedMs: writeSince === undefined ? undefined : performance.now() - writeSince,
      });
      this.#toldOfWrite = grant.writes < writes ? writeSince : undefined;
      if (this.#alone && this.#isStarted)
        this.#options.log.info({}, 'the budget of CRM calls is shared again');
      this.#alone = undefined;
      this.#take(grant);
    } catch (err) {
      // Where it is not known what became of it, calls stay counted rather than be made twice.
      if (!(err instanceof OutcomeUnknown)) this.#lease += returned;
      this.#owed += owed;
      // It is forgotten there by itself.
      this.#toldOfWrite = undefined;
      this.#goOnAlone(err);
    }
    this.#options.metrics.crmBudgetUsed.set(this.#used());
  }

  /** Takes what was granted, and rests where another replica should have its turn. */
  #take({ writes, reads, ahead }: Grant): void {
    this.#lease += writes + reads + ahead;
    this.#waiters.turnOfReads(reads);
    if (this.#waiters.size === 0 || this.replicas === 1) return;
    const isTurnedAway = writes + reads + ahead === 0;
    const isLast = this.#bucket.available < 1;
    const rest = isTurnedAway ? yieldMs : isLast ? Math.min(restMs, 0.25 / this.#limits.rate) : 0;
    this.#restUntil = performance.now() + rest;
  }

  #used(): number {
    return Math.max(0, Math.round(this.#bucket.used) - this.#lease + this.#owed);
  }

  #goOnAlone(err: unknown): void {
    const now = performance.now();
    if (this.#alone === undefined) {
      const replicas = this.#bucket.isKnown ? this.#bucket.replicas : unknownReplicas;
      this.#alone = { rate: this.#limits.rate / replicas, calls: 0, at: now };
      if (this.#isStarted) this.#tellAlone(replicas, err);
    }
    const calls = this.#aloneCalls(now);
    const taken = calls >= 1 && this.#waiters.size > 0 && this.#lease === 0 ? 1 : 0;
    this.#alone = { ...this.#alone, calls: calls - taken, at: now };
    this.#lease += taken;
    this.#owed += taken;
  }

  #tellAlone(replicas: number, err?: unknown): void {
    this.#options.log.warn(
      { ...(err !== undefined && { err }), replicas },
      'the budget of CRM calls is not shared; this replica keeps to its part',
    );
  }

  #aloneCalls(now: number): number {
    const { rate, calls, at } = this.#alone ?? { rate: 0, calls: 0, at: 0 };
    return Math.min(1, calls + (now - at) * rate);
  }

  #rate(): number {
    return this.#alone?.rate ?? this.#limits.rate;
  }

  /** Calls that may be made now, as far as is known. */
  #availableNow(): number {
    return this.#alone ? this.#aloneCalls(performance.now()) : this.#bucket.available;
  }

  #isPlenty(): boolean {
    return !this.#alone && this.#availableNow() >= this.#limits.burst / 2;
  }

  /** Calls that are worth taking before they are asked for. */
  #ahead(): number {
    const calls = Math.min(largestLease, this.#recentCalls(performance.now()));
    if (calls < 2 || this.#alone) return 0;
    return this.#availableNow() - calls - 1 >= this.#limits.burst / 2 ? calls : 0;
  }

  /** Until one that waits can have a call, as far as is known. */
  #untilNextMs(): number {
    const mostMs = this.#alone ? tryAgainMs : Number.POSITIVE_INFINITY;
    if (this.#waiters.size === 0) return this.#alone ? tryAgainMs : 0;
    const untilRestedMs = this.#restUntil - performance.now();
    if (this.#isPlenty()) return untilRestedMs;
    const untilOneMs = Math.max(0, 1 - this.#availableNow()) / this.#rate();
    return Math.min(mostMs, Math.max(untilRestedMs, untilOneMs, this.#waiters.untilPollMs()));
  }

  #forecastMs(kind: CallKind, joins: boolean, further: number): number {
    const needed = this.#waiters.before(kind) + (joins ? 0 : 1) + further - this.#lease;
    return needed <= 0 ? 0 : Math.max(0, needed - this.#availableNow()) / this.#rate();
  }
}
