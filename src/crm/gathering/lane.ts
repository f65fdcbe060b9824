import { setTimeout as delay } from 'node:timers/promises';
import { type Call, remainingMs, startCall } from '../../base/call.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { CrmFailure } from '../rest/failure.ts';
import { FairQueue } from '../rest/fair-queue.ts';
import { crowded, type SharedCall } from '../rest/limiter.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { pauseAfter } from '../rest/retry.ts';
import { carryOut } from './carry-out.ts';
import type { Operation, Outcome } from './operation.ts';

/*
 * A lane gathers the requests for one kind of work on one resource into calls. For the lane:
 *
 *   idle       nothing is in flight: a request goes at once
 *   gathering  something is in flight: requests wait until one of these holds
 *                - they are a fair share of all that is under way: then about `callsAtOnce` calls are in flight at any
 *                  time
 *                - they are most of such a share, and as many have come as were answered: callers who send the next
 *                  request when the last one is answered leave with those whom they came with
 *                - the first of them has waited an eighth of what a call takes
 *                - nothing is in flight any more
 *   departing  a call is on its way to a token and a slot; whoever comes meanwhile still gets on. The batch is drawn
 *              when the slot is there, and not a moment earlier. One at a time.
 *
 *   idle -> departing -> gathering -> departing -> … -> idle
 */
const callsAtOnce = 8;
/** With few requests it pays to wait for company: each call counts against a daily quota. */
const smallestShare = 8;
/** Most of a share. */
const enough = 0.75;
/** A share of this size leaves at once: those who come a little later fill the next call. */
const largeShare = 40;
/** Records that the CRM takes in one Collections call. */
const mostItems = 200;
/** Bytes in one call. The CRM documents no limit of a body; an answer with as much again must be held in memory. */
const mostBytes = 3 * 1024 * 1024;
const longestGatherMs = 50;
/** Until the first answer tells how long a call takes. */
const presumedLatencyMs = 100;
/** A call that nobody waits for any more ends by itself. */
const departureMs = 25_000;

interface Member<Item, Result> {
  item: Item;
  call: Call;
  party: string;
  /** Times it was sent. */
  tries: number;
  /** Gives up its place in the waiting room. */
  leave: () => void;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

export interface Lane<Item, Result> {
  /** Carries one item out, together with others where there are any. Throws `CrmFailure` or `Problem`. */
  submit(item: Item, call: Call): Promise<Result>;
}

export interface LaneOptions<Item, Result> {
  /** Name among all lanes. */
  name: string;
  operation: Operation<Item, Result>;
  client: Pick<CrmClient, 'door' | 'retryBudget' | 'shortestCallMs'>;
  /** The longest that a call may take. */
  timeoutMs: number;
  metrics: Metrics;
}

export function createLane<Item, Result>(options: LaneOptions<Item, Result>): Lane<Item, Result> {
  return new GatheringLane(options);
}

class GatheringLane<Item, Result> implements Lane<Item, Result> {
  readonly #options: LaneOptions<Item, Result>;
  readonly #waiting = new FairQueue<Member<Item, Result>>();
  /** Calls, and members in them, from the moment they are drawn until they are answered. */
  #calls = 0;
  #inFlight = 0;
  #isDeparting = false;
  /** Members who were answered and have not come again, if each of them comes again; of the time since it was idle. */
  #away = 0;
  /** Since when somebody has been waiting, by `performance.now()`. */
  #waitingSince = 0;
  #latencyMs = presumedLatencyMs;
  /** Halved by a call that took too long, doubled by one that did not. */
  #mostItems = mostItems;
  #gatherTimer: NodeJS.Timeout | undefined;
  #isTurnOut = false;
  #sweep: { at: number; timer: NodeJS.Timeout } | undefined;

  constructor(options: LaneOptions<Item, Result>) {
    this.#options = options;
  }

  submit(item: Item, call: Call): Promise<Result> {
    const leave = this.#options.client.door.enter(this.#options.operation.effect, call);
    return new Promise((resolve, reject) => {
      this.#add({ item, call, party: call.consumerId ?? '', tries: 0, leave, resolve, reject });
    });
  }

  #add(member: Member<Item, Result>): void {
    this.#away = Math.max(0, this.#away - 1);
    if (this.#waiting.size === 0) this.#waitingSince = performance.now();
    this.#waiting.add(member.party, member);
    this.#sweepBy(member.call.deadline);
    this.#consider();
  }

  /** Decides whether a call leaves now. */
  #consider(): void {
    if (this.#isDeparting || this.#waiting.size === 0) return;
    if (this.#calls === 0) {
      this.#away = 0;
      this.#depart();
      return;
    }
    const share = this.#share();
    if (this.#isShare(share)) {
      // Few go after all that has arrived in this turn of the event loop: a burst leaves together.
      if (share >= largeShare) this.#depart();
      else this.#departAfterTurn();
      return;
    }
    this.#gatherTimer ??= setTimeout(() => {
      this.#gatherTimer = undefined;
      if (!this.#isDeparting && this.#waiting.size > 0) this.#depart();
    }, this.#gatherMs());
  }

  #departAfterTurn(): void {
    if (this.#isTurnOut) return;
    this.#isTurnOut = true;
    setImmediate(() => {
      this.#isTurnOut = false;
      if (!this.#isDeparting && this.#isShare(this.#share())) this.#depart();
      else this.#consider();
    });
  }

  #share(): number {
    const share = Math.ceil((this.#waiting.size + this.#inFlight) / callsAtOnce);
    return Math.min(this.#mostItems, Math.max(smallestShare, share));
  }

  #isShare(share: number): boolean {
    const { size } = this.#waiting;
    return size >= share || (this.#away === 0 && size >= Math.max(smallestShare, enough * share));
  }

  #gatherMs(): number {
    const patienceMs = Math.min(longestGatherMs, this.#latencyMs / 8);
    return Math.max(1, this.#waitingSince + patienceMs - performance.now());
  }

  #depart(): void {
    const { name } = this.#options;
    clearTimeout(this.#gatherTimer);
    this.#gatherTimer = undefined;
    this.#isDeparting = true;
    void this.#run({ ...startCall(`batch ${name}`, undefined, departureMs), turn: name });
  }

  /** One batch, from its way to a slot to its answers. Never throws. */
  async #run(call: SharedCall): Promise<void> {
    let members: Member<Item, Result>[] | undefined;
    let startedAt = 0;
    const draw = () => {
      if (members === undefined) {
        members = this.#draw(call);
        startedAt = performance.now();
      }
      // All of them gave up while the call waited for its slot.
      if (members.length === 0) throw new CrmFailure('late', 'nobody waits for it any more');
      return members.map(({ item }) => item);
    };
    let outcomes: Outcome<Result>[] | undefined;
    let fault: unknown;
    try {
      outcomes = await carryOut(this.#options.operation, draw, call);
      this.#learn(performance.now() - startedAt);
    } catch (error) {
      fault = error;
    }
    members ??= this.#draw(call);
    this.#calls -= 1;
    this.#inFlight -= members.length;
    this.#away += members.length;
    for (const [index, member] of members.entries()) {
      member.call.crmMs += call.crmMs;
      const outcome = outcomes?.[index];
      if (outcome === undefined) member.reject(fault);
      else this.#settle(member, outcome);
    }
    this.#consider();
  }

  /** Takes the members of a batch out of those that wait: consumers in turn, as many as one call holds. */
  #draw(call: SharedCall): Member<Item, Result>[] {
    const { operation, client, timeoutMs, metrics } = this.#options;
    const members: Member<Item, Result>[] = [];
    let bytes = 0;
    const hasTime = ({ call: { deadline } }: Member<Item, Result>, ms: number) =>
      deadline - performance.now() >= ms;
    const fits = (member: Member<Item, Result>): boolean => {
      const [first] = members;
      if (first === undefined) return true;
      // A call must end before the first of its members' deadlines: who has little time left does not cut the others'.
      if (hasTime(first, timeoutMs) !== hasTime(member, timeoutMs)) return false;
      return members.length < this.#mostItems && bytes + operation.size(member.item) <= mostBytes;
    };
    for (let member = this.#waiting.next(fits); member; member = this.#waiting.next(fits)) {
      member.leave();
      if (!hasTime(member, client.shortestCallMs)) {
        member.reject(new CrmFailure('late', 'no time was left for the call'));
        continue;
      }
      members.push(member);
      bytes += operation.size(member.item);
    }
    call.deadline = Math.min(call.deadline, ...members.map((member) => member.call.deadline));
    // One trace can show the call as its own; the others know its time only.
    if (members[0] !== undefined) call.span = members[0].call.span;
    this.#isDeparting = false;
    this.#calls += 1;
    this.#inFlight += members.length;
    this.#waitingSince = performance.now();
    if (members.length > 0) metrics.crmBatchSize.observe({ operation: operation.name }, members.length);
    this.#consider();
    return members;
  }

  #learn(ms: number): void {
    this.#latencyMs += (ms - this.#latencyMs) / 5;
    const isLate = ms >= this.#options.timeoutMs;
    this.#mostItems = isLate
      ? Math.max(1, Math.floor(this.#mostItems / 2))
      : Math.min(mostItems, this.#mostItems * 2);
  }

  #settle(member: Member<Item, Result>, outcome: Outcome<Result>): void {
    if ('result' in outcome) {
      member.resolve(outcome.result);
      return;
    }
    const { failure, ofItem } = outcome;
    const isPassing = ofItem === true && (failure.kind === 'locked' || failure.kind === 'busy');
    if (isPassing) void this.#again(member, failure);
    else member.reject(failure);
  }

  /** An item that was locked goes again after a pause, for itself or with whoever is there by then. */
  async #again(member: Member<Item, Result>, failure: CrmFailure): Promise<void> {
    const { client, metrics } = this.#options;
    member.tries += 1;
    const pauseMs = pauseAfter(failure, member.tries);
    const isInTime = pauseMs !== undefined && remainingMs(member.call) >= pauseMs + client.shortestCallMs;
    if (!isInTime || !client.retryBudget.spend()) {
      member.reject(failure);
      return;
    }
    metrics.crmRetries.inc({ reason: failure.kind });
    await delay(pauseMs);
    this.#add(member);
  }

  /** Who waits must not wait longer than it has time. */
  #sweepBy(deadline: number): void {
    if (this.#sweep !== undefined && this.#sweep.at <= deadline) return;
    clearTimeout(this.#sweep?.timer);
    const timer = setTimeout(
      () => {
        this.#sweep = undefined;
        this.#turnLateAway();
      },
      Math.max(1, deadline - performance.now()),
    );
    timer.unref();
    this.#sweep = { at: deadline, timer };
  }

  #turnLateAway(): void {
    let earliest = Number.POSITIVE_INFINITY;
    for (const member of this.#waiting) {
      if (remainingMs(member.call) > 0) {
        earliest = Math.min(earliest, member.call.deadline);
        continue;
      }
      this.#waiting.delete(member.party, member);
      member.leave();
      member.reject(crowded());
    }
    if (earliest < Number.POSITIVE_INFINITY) this.#sweepBy(earliest);
  }
}
