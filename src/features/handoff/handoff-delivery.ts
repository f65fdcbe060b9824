import { AdaptiveSize } from '../../platform/base/batching.ts';
import { type Call, ownWorldOf, startCall, type Visible } from '../../platform/base/call.ts';
import { now, randomUUID } from '../../platform/base/chance.ts';
import { coalesce } from '../../platform/base/concurrency.ts';
import { Problem } from '../../platform/base/problem.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Held } from '../../platform/store/leases.ts';
import type { HandoffOutcome, Settled, TakenHandoff } from './accepted.ts';
import {
  attemptFactsOf,
  type DeliveryAttempt,
  type DeliveryParts,
  deliver,
  isOfOrg,
  isOfRecord,
  isUnknown,
  mayBeOwn,
  refusalOf,
} from './deliver.ts';
import { type HandoffType, isOfEarlierAttempts, targets } from './handoff.ts';
import type { Failing, HandoffsTable, UnsettledHandoff } from './handoffs-table.ts';

/** How long the others wait for a delivering process that was killed. In seconds. */
export const leaseSeconds = 10;

/** Hand-offs that are delivered together at most, as many as one call to the CRM takes. */
const largestBatch = 200;
const probeEveryMs = 5000;
const lookUpMs = 3000;
/** Workers for each type that retry failed hand-offs, each in a call of its own. Those that failed once do not wait for others. */
const retryWorkers: { failing: Failing; workers: number; ms: number }[] = [
  { failing: 'once', workers: 4, ms: 3000 },
  { failing: 'again', workers: 2, ms: 25_000 },
];
/**
 * A hand-off has failed after this many failures: 18 hours after the first, or earlier while others of its type succeed and
 * the failure is not transient.
 */
const mostFailures = 9;
const mostWhileTypeWorks = 5;
const recentMs = 600_000;
/** In seconds, before the third attempt and further ones. */
const pauses = { first: 15, most: 43_200, factor: 4 };
/** In seconds, after a retry that failed because the CRM is unavailable. */
const sharedFailurePause = 60;
/** After an outage of a type of at least this long, its failed hand-offs are retried at once. */
const longOutageMs = 60_000;
const lookedForAtOnce = 20;
const lookAgainSeconds = 20;

export interface HandoffDeliveryOptions extends DeliveryParts {
  table: HandoffsTable;
  /** Milliseconds for a batch, well within its lease. What is not answered by then is retried one by one. */
  batchMs: number;
  /** Makes this process the delivering one for `leaseSeconds`; undefined while another is. Throws what the database does. */
  lease: () => Promise<Held | undefined>;
  /** Stores how attempts ended. Throws what the database does. */
  settle: (settled: readonly Settled[]) => Promise<void>;
  /** Which records of a resource a consumer sees: who sees only its own needs to be written into what is made for it. */
  visibleTo: (consumerId: string, resource: string) => Visible;
  log: Log;
}

type Ended = DeliveryAttempt & { handoff: TakenHandoff };

/** The state of the delivery of one type: an org may refuse bookings and accept quotes. Times are of `now()`. */
interface TypeState {
  type: HandoffType;
  batchSize: AdaptiveSize;
  isUnavailable: boolean;
  probedAt: number;
  madeAt: number;
  failedAt: number;
}

/**
 * Delivers accepted hand-offs in one process at a time, so that the order holds and one process alone probes the CRM. These
 * run in parallel, and do not wait for each other:
 *
 *   for each type: batches of hand-offs that have not failed, in the order of acceptance of each consumer; consumers take turns
 *   for each type: retries of those that failed, each in a call of its own, after growing pauses
 *   the search for records of hand-offs that have ended
 *
 * A failure is the hand-off's own if the CRM answers a look-up right after it. Such failures are counted, and the hand-off has
 * failed after too many. Otherwise the CRM is unavailable: no failure is counted, and one hand-off every 5 s shows when it is back.
 */
export class HandoffDelivery {
  readonly #options: HandoffDeliveryOptions;
  readonly #types: TypeState[] = (Object.keys(targets) as HandoffType[]).map((type) => ({
    type,
    batchSize: new AdaptiveSize(1, largestBatch),
    isUnavailable: false,
    probedAt: 0,
    madeAt: Number.NEGATIVE_INFINITY,
    failedAt: Number.NEGATIVE_INFINITY,
  }));
  readonly #workers: (() => Promise<void>)[];
  #stopping: AbortSignal | undefined;
  /** By `now()`. */
  #leasedUntil = Number.NEGATIVE_INFINITY;
  #probedAt = Number.NEGATIVE_INFINITY;

  constructor(options: HandoffDeliveryOptions) {
    this.#options = options;
    this.#workers = [
      ...this.#types.flatMap((state) => [
        this.#worker(() => this.#deliverBatch(state)),
        ...retryWorkers.flatMap((kind) =>
          Array.from({ length: kind.workers }, () => this.#worker(() => this.#deliverAlone(state, kind))),
        ),
      ]),
      this.#worker(() => this.#settleEnded()),
    ];
  }

  /** Becomes or stays the delivering process if possible, and starts what is due; to be called every few seconds. Throws what the database does. */
  async run(stopping: AbortSignal): Promise<void> {
    const leased = await this.#options.lease();
    if (leased === undefined) return;
    this.#leasedUntil = leased.deadline;
    this.#stopping = stopping;
    for (const work of this.#workers) void work();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#workers.map((work) => work()));
  }

  #worker(step: () => Promise<boolean>): () => Promise<void> {
    return coalesce(async () => {
      try {
        while (this.#mayWork() && (await step()));
      } catch (err) {
        this.#options.log.warn({ err }, "couldn't deliver accepted hand-offs; will try again later");
      }
    });
  }

  #mayWork(): boolean {
    return this.#stopping?.aborted === false && now() < this.#leasedUntil;
  }

  /** Delivers the next ones that have not failed; while the CRM is unavailable, one every few seconds. Whether to go on. */
  async #deliverBatch(state: TypeState): Promise<boolean> {
    const { table, batchMs } = this.#options;
    const isProbe = state.isUnavailable;
    const batch = isProbe
      ? await this.#takeProbe(state)
      : await table.take(state.type, state.batchSize.value);
    if (batch.length === 0) return false;
    const startedAt = now();
    const attempts = await this.#attempt(batch, isProbe ? 'probe' : 'batch', batchMs);
    // Nothing was sent: this says nothing about the CRM, and a smaller batch would not help.
    const isUnsent = attempts.every((one) => isWaitingForBudget(one) || hasEndedUnsent(one));
    const isCrmAvailable = isUnsent || (await this.#isCrmAvailable(attempts));
    await this.#settle(state, attempts, isCrmAvailable);
    if (!isUnsent) this.#note(state, attempts, { isCrmAvailable, isQuick: now() - startedAt < batchMs / 2 });
    return isCrmAvailable;
  }

  /** One probe every few seconds in all, of the type whose last one is the longest ago. */
  async #takeProbe(state: TypeState): Promise<TakenHandoff[]> {
    const { table } = this.#options;
    const last = this.#probedAt;
    const isNext = this.#types.every((other) => !other.isUnavailable || other.probedAt >= state.probedAt);
    if (!isNext || now() - last < probeEveryMs) return [];
    state.probedAt = now();
    this.#probedAt = state.probedAt;
    let taken = await table.take(state.type, 1);
    if (taken.length === 0) taken = await table.takeFailing(state.type, 'once');
    if (taken.length === 0) taken = await table.takeFailing(state.type, 'again');
    if (taken.length === 0) this.#probedAt = last;
    return taken;
  }

  #note(
    state: TypeState,
    attempts: readonly Ended[],
    { isCrmAvailable, isQuick }: { isCrmAvailable: boolean; isQuick: boolean },
  ) {
    const { log } = this.#options;
    const { type } = state;
    const [err] = attempts.flatMap(({ ended }) => (ended.status === 'open' ? [ended.error] : []));
    if (!isCrmAvailable && !state.isUnavailable)
      log.warn({ err, type }, 'accepted hand-offs are waiting; Salesforce takes none');
    if (isCrmAvailable && state.isUnavailable) {
      log.info({ type }, 'accepted hand-offs are delivered again');
      // Other types may probe at once.
      this.#probedAt = Number.NEGATIVE_INFINITY;
    }
    state.isUnavailable = !isCrmAvailable;
    if (!isCrmAvailable) return;
    if (attempts.some(isOwnFailure)) state.batchSize.halve();
    else if (isQuick) state.batchSize.double();
  }

  async #deliverAlone(state: TypeState, { failing, ms }: (typeof retryWorkers)[number]): Promise<boolean> {
    if (state.isUnavailable) return false;
    const taken = await this.#options.table.takeFailing(state.type, failing);
    if (taken.length === 0) return false;
    const attempts = await this.#attempt(taken, 'alone', ms);
    await this.#settle(state, attempts, await this.#isCrmAvailable(attempts));
    return true;
  }

  #attempt(batch: readonly TakenHandoff[], background: Call['background'], ms: number): Promise<Ended[]> {
    const { visibleTo } = this.#options;
    return Promise.all(
      batch.map(async (handoff) => {
        const visible = (resource: string) => visibleTo(handoff.consumerId, resource);
        const call = { ...backgroundCall(handoff, background, ms), visible };
        return { handoff, ...(await deliver(this.#options, handoff, call)) };
      }),
    );
  }

  /** Whether the CRM has answered any of these, or answers a look-up now: then failures are those of the hand-offs. */
  async #isCrmAvailable(attempts: readonly Ended[]): Promise<boolean> {
    if (attempts.some((one) => one.ended.status !== 'open' && !hasEndedUnsent(one))) return true;
    const own = attempts.find(isOwnFailure);
    if (own === undefined) return false;
    const { type, externalId } = own.handoff;
    const call = backgroundCall(own.handoff, 'probe', lookUpMs);
    try {
      const { records, resources } = this.#options;
      const found = await records.findWithDeleted(resources[type], externalId, call);
      // The record was created. That of an item may be older: the next attempt looks closer.
      if (found && own.handoff.reference === undefined)
        own.ended = { status: 'created', nativeId: found.nativeId };
      return true;
    } catch {
      return false;
    }
  }

  async #settle(state: TypeState, attempts: readonly Ended[], isCrmAvailable: boolean): Promise<void> {
    const { settle, table } = this.#options;
    const settled = attempts.map((one) => ({
      handoff: one.handoff,
      outcome: this.#outcomeOf(state, one, isCrmAvailable),
      attempt: attemptFactsOf(one),
    }));
    await settle(settled);
    if (isCrmAvailable && attempts.some(isOwnFailure)) state.failedAt = now();
    if (!settled.some(({ outcome }) => outcome.status === 'created')) return;
    const hasRecovered = state.failedAt > state.madeAt && now() - state.madeAt > longOutageMs;
    state.madeAt = now();
    if (hasRecovered || state.isUnavailable) await table.makeDue(state.type);
  }

  #outcomeOf(state: TypeState, one: Ended, isCrmAvailable: boolean): HandoffOutcome {
    const { handoff, ended } = one;
    if (ended.status !== 'open') return ended;
    const mayExist = handoff.mayExist || isUnknown(ended.error);
    const { failures } = handoff;
    if (!isCrmAvailable || !isOwnFailure(one)) {
      const pauseSeconds = failures === 0 ? 0 : sharedFailurePause;
      return { status: 'accepted', mayExist, failures, pauseSeconds };
    }
    this.#options.log.warn(
      { err: ended.error, external_id: handoff.externalId, failures: failures + 1 },
      'an accepted hand-off failed while Salesforce works; trying it again alone',
    );
    if (failures + 1 >= mostFailuresOf(state, ended.error))
      return { status: 'failed', refusal: refusalOf(ended.error), mayExist };
    const pauseSeconds = failures === 0 ? 0 : pauseAfter(failures, pauses);
    return { status: 'accepted', mayExist, failures: failures + 1, pauseSeconds };
  }

  async #settleEnded(): Promise<boolean> {
    const { table } = this.#options;
    const found = await table.takeUnsettled(lookedForAtOnce);
    await Promise.all(found.map((one) => this.#settleOne(one)));
    return found.length > 0;
  }

  /** Removes the record of one that was cancelled or rejected; creates a failed one where its record exists. */
  async #settleOne(ended: UnsettledHandoff): Promise<void> {
    const { table, records, resources, log, settle } = this.#options;
    const { externalId, type, consumerId, status, deadline, isLast, isItem, since } = ended;
    const attempts = { since, hadRecord: ended.hadRecord ?? undefined };
    const call = { ...startCall(randomUUID(), ownWorldOf(consumerId)), deadline, isWrite: true };
    let isSettled = isLast;
    try {
      const found = await records.find(resources[type], externalId, call);
      const isOwn = found && (!isItem || isOfEarlierAttempts(found, attempts));
      const record = isOwn ? found : undefined;
      if (record && status === 'failed') {
        const { nativeId } = record;
        await settle([{ handoff: ended, outcome: { status: 'created', nativeId } }]);
        return;
      }
      if (record) await records.remove(resources[type], record, call);
    } catch (err) {
      isSettled = false;
      const facts = { err, external_id: externalId, status };
      log.warn(facts, "couldn't find or remove the record of a hand-off that has ended");
    }
    await table.putOff(ended, isSettled ? undefined : lookAgainSeconds);
  }
}

function mostFailuresOf({ madeAt }: TypeState, error: unknown): number {
  const isEarly = now() - madeAt < recentMs && !isOfRecord(error) && !isOfOrg(error);
  return isEarly ? mostWhileTypeWorks : mostFailures;
}

function isWaitingForBudget({ ended }: Ended): boolean {
  return (
    ended.status === 'open' && ended.error instanceof Problem && ended.error.facts.isBudgetExhausted === true
  );
}

function hasEndedUnsent({ handoff, ended }: Ended): boolean {
  return ended.status === 'failed' && ended.refusal.code === 'offer_expired' && !handoff.mayExist;
}

function isOwnFailure({ ended }: Ended): boolean {
  return ended.status === 'open' && mayBeOwn(ended.error);
}

/** On behalf of who handed it off: the record says so. */
function backgroundCall(handoff: TakenHandoff, background: Call['background'], ms: number): Call {
  const { requestId, consumerId, consumerName, actor, subject } = handoff;
  return { ...startCall(requestId, consumerId, ms), consumerName, actor, subject, background, isWrite: true };
}
