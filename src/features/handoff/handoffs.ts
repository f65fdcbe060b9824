import { logAuditEvent } from '../../identity/audit/audit-event-archive.ts';
import { createBatcher } from '../../platform/base/batching.ts';
import type { Call, Mode } from '../../platform/base/call.ts';
import { setImmediate, sleep, wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { type Polling, startPolling } from '../../platform/base/waiting.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable, orUnavailable } from '../../platform/store/failures.ts';
import { namesFrom } from '../../records/field-values.ts';
import { delayOfTest } from '../../records/test-members.ts';
import type { NewEvent } from '../events/event-log.ts';
import { isOfMode, type QueueLimits } from './acceptance.ts';
import {
  type AttemptFacts,
  type Cancelling,
  type HandoffOutcome,
  type HandoffQuery,
  type NewHandoff,
  originOf,
  type Settled,
  type StoredHandoff,
  type TakenHandoff,
  whyNotCancelled,
} from './accepted.ts';
import {
  contentReplaced,
  type Decision,
  decide,
  endSome,
  isReplaced,
  whyUndecidable,
} from './approvals-table.ts';
import {
  attemptFactsOf,
  createDeliveryParts,
  type DeliveryParts,
  deliver,
  isInUse,
  isUnknown,
  outcomeOf,
  problemOf,
} from './deliver.ts';
import {
  confirm,
  type HandoffConfirmation,
  type HandoffCrm,
  type HandoffRequest,
  handOff,
  knownInstead,
  knownRecord,
  mayPass,
  type RequestGuard,
  targets,
} from './handoff.ts';
import { HandoffDelivery, type HandoffDeliveryOptions } from './handoff-delivery.ts';
import { type HandoffLease, HandoffsTable } from './handoffs-table.ts';
import type { HandoffMetrics } from './metrics.ts';
import {
  type Again,
  atStore,
  type ItemMeeting,
  itemInUse,
  kept,
  type Meeting,
  meetItems,
  pausesMs,
} from './stored-items.ts';

export interface HandOffOptions {
  externalId: string;
  isContinued: boolean;
  mayExist?: boolean;
  /** Another consumer has to approve it: it is stored, whatever the request prefers. */
  needsApproval: boolean;
  mayBeAccepted: boolean;
  waitSeconds: number;
  /** Milliseconds since 1970: no earlier attempt of the same request was made before. */
  since?: number | undefined;
  claim?: RequestGuard | undefined;
}

export interface HandoffsOptions
  extends Omit<HandoffDeliveryOptions, 'table' | 'settle' | keyof DeliveryParts>,
    HandoffCrm {
  database: Database;
  mode: Mode;
  metrics: HandoffMetrics;
  whenCrmIsUnavailable: 'refuse' | 'accept';
  queueLimit: number;
  queueLimitPerConsumer: number;
  eventData: (handoff: StoredHandoff) => object;
}

const retentionDays = 30;
/** New ones that share a statement: each may hold a megabyte. */
const acceptedAtOnce = 50;

const nothingMet: ItemMeeting = {
  waiting: [],
  left: [],
  done: async () => undefined,
  undone: async () => undefined,
};

export type Handoffs = Pick<AcceptedHandoffs, keyof AcceptedHandoffs>;

export class AcceptedHandoffs {
  /** `accept`: also a hand-off whose caller did not ask for it is stored where the CRM fails. */
  readonly whenCrmIsUnavailable;
  readonly #options: HandoffsOptions;
  readonly #table: HandoffsTable;
  readonly #limits: QueueLimits;
  readonly #delivery: HandoffDelivery;
  readonly #accept: (handoff: NewHandoff) => Promise<HandoffLease | 'known' | undefined>;
  readonly #delivering: DeliveryParts;
  readonly #underWay = new Set<Promise<void>>();
  #polling: Polling | undefined;

  constructor(options: HandoffsOptions) {
    const { database, mode, queueLimit, queueLimitPerConsumer } = options;
    const table = new HandoffsTable(database, mode);
    this.#options = options;
    this.whenCrmIsUnavailable = options.whenCrmIsUnavailable;
    this.#table = table;
    this.#limits = { inAll: queueLimit, ofConsumer: queueLimitPerConsumer };
    this.#delivering = createDeliveryParts(options, { database, table });
    const settle = (settled: readonly Settled[]) => this.#settle(settled);
    this.#delivery = new HandoffDelivery({ ...options, ...this.#delivering, table, settle });
    this.#accept = createBatcher({
      execute: (handoffs: NewHandoff[]) => table.accept(handoffs, this.#limits, this.#eventOf),
      // One after the other: so the limit holds, and the order is that of arrival.
      inFlight: 1,
      batchSize: acceptedAtOnce,
      isShared: isUnavailable,
      isHung,
      identity: ({ externalId }) => externalId,
    });
  }

  /**
   * The confirmation, or what the hand-off waits for where it is stored. Throws `Problem`: the CRM's refusal, `offer_expired`,
   * `store_unavailable`, and `crm_unavailable` where too many wait.
   */
  async handOff(
    request: HandoffRequest,
    options: HandOffOptions,
    call: Call,
  ): Promise<HandoffConfirmation | 'accepted' | 'awaiting_approval'> {
    const { externalId, isContinued, needsApproval, mayBeAccepted } = options;
    const isStored = isContinued && request.reference === undefined;
    const stored = isStored ? await this.find(externalId) : undefined;
    if (stored) return stored.approval ? 'awaiting_approval' : 'accepted';
    const delaySeconds = delayOfTest(request.memberId, call);
    const handoff = { ...newHandoff(request, options, call), delaySeconds };
    const isNow = !needsApproval && delaySeconds === undefined && !mayBeAccepted;
    const meeting = await this.#meetOne(handoff, { options, holds: isNow });
    const [waiting] = meeting.waiting;
    if (waiting === undefined)
      return isNow
        ? this.#makeOrAccept(handoff, { options, meeting }, call)
        : this.#acceptNew(handoff, options, call);
    await meeting.done();
    return waiting;
  }

  async #acceptNew(handoff: NewHandoff, { waitSeconds }: HandOffOptions, call: Call) {
    const known = await knownInstead(this.#options, handoff, call);
    if (known) return known;
    const { needsApproval, delaySeconds } = handoff;
    if (waitSeconds > 0 && !needsApproval && delaySeconds === undefined)
      return this.#storeAndTry(handoff, waitSeconds, call);
    return this.#storeForLater(handoff, call);
  }

  /**
   * Meets the stored hand-offs of items that are made together: nothing is changed before all of them stand. Throws what `refusalOf`
   * makes of refusals, `idempotency_in_progress` while one is delivered or removed, and `store_unavailable`.
   */
  meet(items: readonly Again[], options: Pick<Meeting, 'continuedSince' | 'refusalOf'>, call: Call) {
    const meeting = { ...options, origin: originOf(call), holds: true, eventOf: this.#eventOf };
    return meetItems(this.#options.database, items, meeting);
  }

  async #meetOne(
    handoff: NewHandoff,
    { options, holds }: { options: Pick<HandOffOptions, 'isContinued' | 'since'>; holds: boolean },
  ): Promise<ItemMeeting> {
    if (handoff.reference === undefined) return nothingMet;
    const { externalId, needsApproval } = handoff;
    const { isContinued, since = 0 } = options;
    return meetItems(this.#options.database, [{ externalId, request: handoff, needsApproval }], {
      origin: handoff,
      continuedSince: isContinued ? since : undefined,
      holds,
      eventOf: this.#eventOf,
      refusalOf: (refusals) => refusals.get(0),
    });
  }

  async #storeForLater(handoff: NewHandoff, call: Call) {
    const { needsApproval } = handoff;
    const known = await knownRecord(this.#options, handoff, call);
    if (known) return known;
    const stored = await this.#store(handoff);
    if (typeof stored === 'string') return stored;
    if (needsApproval) this.#options.metrics.acceptedHandoffs.inc({ result: 'awaiting_approval' });
    else this.#noteAccepted();
    return needsApproval ? 'awaiting_approval' : 'accepted';
  }

  async #storeAndTry(handoff: NewHandoff, seconds: number, call: Call) {
    const stored = await this.#store({ ...handoff, isHeld: true });
    if (typeof stored === 'string') return stored;
    const mayExist = handoff.mayExist || stored.mayExist;
    return this.#tryFor(seconds, { ...handoff, failures: 0, ...stored, mayExist }, call);
  }

  async #makeOrAccept(
    handoff: NewHandoff,
    { options: { claim }, meeting }: { options: HandOffOptions; meeting: ItemMeeting },
    call: Call,
  ) {
    const [left] = meeting.left;
    try {
      const known = left ? undefined : await knownInstead(this.#options, handoff, call);
      const earlier = left && { mayExist: true, isReplaced: true, ...left };
      const made =
        known ?? (await handOff(this.#options, handoff, { ...handoff, guard: claim, ...earlier }, call));
      await meeting.done([made]);
      return made;
    } catch (error) {
      await meeting.undone();
      if (this.whenCrmIsUnavailable === 'refuse' || !mayPass(error)) throw error;
      // If it may have been written, nothing is overwritten that others change from now on.
      const lost = isUnknown(error) && { mayExist: true, before: claim?.remembered() };
      return this.#acceptInstead({ ...handoff, ...lost }, claim, error);
    }
  }

  async #store(handoff: NewHandoff): Promise<HandoffLease | 'accepted' | 'awaiting_approval'> {
    const { externalId, needsApproval } = handoff;
    for (const pauseMs of pausesMs) {
      const stored = await orUnavailable(() => this.#accept(handoff), {
        ...{ ...kept, outcomeUnknown: true, externalId },
      });
      if (stored === undefined) throw queueFull();
      if (stored !== 'known') return stored;
      if (handoff.reference === undefined) return needsApproval ? 'awaiting_approval' : 'accepted';
      // Another request has stored it, or what has ended is being removed.
      const meeting = await this.#meetOne(handoff, { options: { isContinued: false }, holds: false });
      const [waiting] = meeting.waiting;
      if (waiting) return waiting;
      await sleep(pauseMs);
    }
    throw itemInUse();
  }

  /** Where it can't be stored, the caller hears of the CRM's failure. Throws `idempotency_in_progress` once replaced. */
  async #acceptInstead(handoff: NewHandoff, claim: RequestGuard | undefined, error: Problem) {
    const store = async () => {
      await claim?.confirmOwnership();
      return this.#store(handoff);
    };
    const stored = await store().catch((failure: unknown) => {
      if (!(failure instanceof Problem)) throw failure;
      if (failure.code === 'crm_unavailable') throw error;
      // The answer of the database may have been lost: then it is stored, and delivered later.
      if (failure.code !== 'store_unavailable' && !isUnknown(error)) throw failure;
      throw (isInUse(failure) ? failure : error).asUnknown({ externalId: handoff.externalId });
    });
    if (typeof stored === 'string') return stored;
    this.#noteAccepted();
    return 'accepted' as const;
  }

  async #tryFor(seconds: number, taken: TakenHandoff & HandoffLease, call: Call) {
    const trying = deliver(this.#delivering, taken, call);
    const timer = new AbortController();
    const late = sleep(seconds * 1000, { signal: timer.signal }).catch(() => undefined);
    const attempt = await Promise.race([trying, late]);
    timer.abort();
    if (attempt?.ended.status === 'created') {
      const { ended } = attempt;
      // Should the database fail, it stays, and is delivered once more, which makes no other record.
      const isDone = await this.#end(taken, ended, attemptFactsOf(attempt)).catch(() => true);
      // A hand-off that was cancelled meanwhile is not confirmed: its record is removed.
      if (isDone) return ended.confirmation ?? confirm(taken.type, ended, taken.externalId);
    }
    if (attempt?.ended.status === 'failed') {
      const outcome = { ...attempt.ended, mayExist: taken.mayExist };
      const isDone = await this.#end(taken, outcome, attemptFactsOf(attempt)).catch(() => false);
      if (isDone) throw problemOf(attempt.ended.refusal);
    }
    this.#noteAccepted();
    this.#settleLater(taken, trying);
    return 'accepted' as const;
  }

  /** Where it has taken the place of an earlier hand-off, that one stays to be seen. False for an attempt that was replaced. */
  async #end(taken: TakenHandoff & HandoffLease, outcome: HandoffOutcome, attempt: AttemptFacts) {
    if (!taken.stood) return this.#table.drop(taken);
    const settled = await this.#table.settle([{ handoff: taken, outcome, attempt }], this.#eventOf);
    this.#note(settled);
    return settled.length > 0;
  }

  #settleLater(handoff: TakenHandoff, trying: ReturnType<typeof deliver>): void {
    const going = trying
      .then((one) =>
        this.#settle([{ handoff, outcome: outcomeOf(one.ended, handoff), attempt: attemptFactsOf(one) }]),
      )
      .then(() => this.#polling?.wake())
      // Its lease runs out by itself, and it is delivered again.
      .catch(() => undefined)
      .finally(() => this.#underWay.delete(going));
    this.#underWay.add(going);
  }

  #noteAccepted(): void {
    this.#options.metrics.acceptedHandoffs.inc({ result: 'accepted' });
    // Later, so that the caller is answered first.
    setImmediate(() => this.#polling?.wake());
  }

  readonly #eventOf = (handoff: StoredHandoff): NewEvent | undefined => {
    const { status, externalId, type, consumerId, acceptedAt, completedAt = acceptedAt } = handoff;
    if (status === 'accepted' || status === 'cancelled') return undefined;
    return {
      type: `handoff.${status}`,
      resource: { type: 'handoff', id: externalId },
      occurredAt: completedAt.toISOString(),
      data: JSON.stringify(this.#options.eventData(handoff)),
      permission: targets[type].collection,
      consumerId,
    };
  };

  async #settle(settled: readonly Settled[]): Promise<void> {
    this.#note(await this.#table.settle(settled, this.#eventOf));
  }

  #note(changed: readonly StoredHandoff[]): void {
    const { metrics, log } = this.#options;
    for (const { status, externalId, refusal } of changed) {
      if (status === 'accepted') continue;
      metrics.acceptedHandoffs.inc({ result: status });
      if (status === 'failed')
        log.warn({ external_id: externalId, code: refusal?.code }, 'an accepted hand-off has failed');
    }
  }

  async #endSome(): Promise<void> {
    const { database, mode } = this.#options;
    const ended = await endSome(database, isOfMode(mode), this.#eventOf);
    this.#note(ended);
    if (ended.length > 0) await this.#endSome();
  }

  /**
   * Approves or rejects one of another consumer; the same decision again changes nothing. Returns it as it is then,
   * or undefined where it is no longer as it was seen. Throws `conflict` where it does not wait for that any more.
   */
  async decide(decision: Decision): Promise<StoredHandoff | undefined> {
    const { metrics, log, database } = this.#options;
    const { seen, verdict, audit } = decision;
    const decided = await atStore(() => decide(database, decision, this.#eventOf));
    if (decided === undefined) {
      const found = await this.find(seen.externalId);
      if (found && isReplaced(seen, found)) return undefined;
      if (found?.approval?.status === verdict) return found;
      throw new Problem('conflict', whyUndecidable(found, verdict));
    }
    logAuditEvent(log, audit);
    if (verdict === 'approved') this.#noteAccepted();
    else metrics.acceptedHandoffs.inc({ result: 'rejected' });
    return decided;
  }

  /** Throws `store_unavailable`, as all below. */
  find(externalId: string) {
    return atStore(() => this.#table.find(externalId));
  }

  /** Whether any of these was stored, or got other content, at `since` or later; milliseconds since 1970. */
  hasStored(externalIds: readonly string[], since: number) {
    return atStore(() => this.#table.hasStored(externalIds, new Date(since)));
  }

  list(query: HandoffQuery) {
    return atStore(() => this.#table.list(query));
  }

  /** JSON text of what is to be written; undefined once it is not needed any more. */
  details(externalId: string) {
    return atStore(() => this.#table.details(externalId));
  }

  async namesFrom({ externalId, type, tripId, memberId, name, source }: StoredHandoff): Promise<string[]> {
    const details = await this.details(externalId);
    if (details === undefined) return [];
    const result = { name, source, details: JSON.parse(details) as unknown };
    return namesFrom(this.#options.resources[type], { type, trip_id: tripId, member_id: memberId, result });
  }

  /** Has a failed one delivered again. Throws `conflict`, and `crm_unavailable` where too many wait. */
  async retry({ externalId }: StoredHandoff): Promise<void> {
    const retried = await atStore(() => this.#table.retry(externalId, this.#limits));
    if (retried === 'full') throw queueFull();
    if (retried === undefined)
      throw new Problem('conflict', 'Only a failed hand-off can be retried; check its status.');
    setImmediate(() => this.#polling?.wake());
  }

  /** Cancels one that waits or has failed, or is cancelled already. Throws `conflict`, and `precondition_failed` for `isAsSeen`. */
  async cancel(seen: StoredHandoff, { states, isAsSeen }: Cancelling = {}): Promise<void> {
    const { externalId, contentStamp } = seen;
    const stamp = isAsSeen ? contentStamp : undefined;
    if (await atStore(() => this.#table.cancel(externalId, states, stamp)))
      return this.#options.metrics.acceptedHandoffs.inc({ result: 'cancelled' });
    const found = await this.find(externalId);
    if (isAsSeen && found !== undefined && found.contentStamp !== contentStamp) throw contentReplaced();
    if (found?.status !== 'cancelled') throw new Problem('conflict', whyNotCancelled(found));
  }

  /** Throws what the database does. */
  async checkHealth() {
    const { waiting, oldestSeconds: oldest_seconds } = await this.#look();
    return { connected: true as const, waiting, oldest_seconds };
  }

  async #look() {
    const { acceptedWaiting, acceptedOldest } = this.#options.metrics;
    const found = await this.#table.overview();
    acceptedWaiting.set(found.waiting);
    acceptedOldest.set(found.oldestSeconds);
    return found;
  }

  /** Deletes those that were done this many days ago. Throws what the database does. */
  async deleteOld(signal?: AbortSignal): Promise<void> {
    await this.#table.deleteOlderThan(retentionDays, signal);
  }

  /** Has those that failed delivered again at once. Throws what the database does. */
  resume = () => this.#table.makeDue().then(() => this.#polling?.wake());

  start(): void {
    this.#polling = startPolling({
      what: 'accepted hand-offs',
      log: this.#options.log,
      check: async (stopping) => {
        const { waiting, hasUnsettled, hasEnded } = await this.#look();
        if (hasEnded) await this.#endSome();
        if (waiting > 0 || hasUnsettled) await this.#delivery.run(stopping);
      },
    });
    this.#polling.wake();
  }

  async stop(): Promise<void> {
    await this.#polling?.stop();
    await this.#delivery.stop();
    await Promise.all(this.#underWay);
  }
}

function newHandoff(request: HandoffRequest, options: HandOffOptions, call: Call): NewHandoff {
  const { externalId, isContinued, mayExist = isContinued, needsApproval, since = wallMs(), claim } = options;
  const before = claim?.before;
  return { ...request, ...originOf(call), externalId, mayExist, isHeld: false, needsApproval, since, before };
}

function queueFull(): Problem {
  return new Problem('crm_unavailable', 'Too many hand-offs are waiting.', { retryAfter: 60 });
}
