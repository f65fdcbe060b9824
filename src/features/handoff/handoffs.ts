import type { Claim } from '../../api/idempotency/ledger.ts';
import { logAuditEvent } from '../../identity/audit/audit-event-archive.ts';
import { createBatcher } from '../../platform/base/batcher.ts';
import type { Call } from '../../platform/base/call.ts';
import { setImmediate, sleep, wallMs } from '../../platform/base/chance.ts';
import { adapterFor, type Mode } from '../../platform/base/mode.ts';
import { type Polling, startPolling } from '../../platform/base/poll.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable, orUnavailable } from '../../platform/store/failures.ts';
import { namesFrom } from '../../records/field-values.ts';
import { delayOfTest } from '../../records/test-members.ts';
import type { NewEvent } from '../events/event-log.ts';
import { isOfMode, type QueueLimits } from './acceptance.ts';
import type {
  HandoffOutcome,
  HandoffQuery,
  HandoffStatus,
  NewHandoff,
  Origin,
  Settled,
  StoredHandoff,
  TakenHandoff,
} from './accepted.ts';
import { contentReplaced, type Decision, decide, endSome, whyUndecidable } from './approvals-table.ts';
import { deliver, isUnknown, mayPass } from './deliver.ts';
import {
  confirm,
  type HandoffConfirmation,
  type HandoffRequest,
  handOff,
  requireValid,
  targets,
} from './handoff.ts';
import { HandoffDelivery, type HandoffDeliveryOptions } from './handoff-delivery.ts';
import { type HandoffLease, HandoffsTable } from './handoffs-table.ts';
import type { HandoffMetrics } from './metrics.ts';
import { itemInUse, knownItem, makeRoom, meetStored, pausesMs, requireSameItem } from './stored-items.ts';

export interface HandOffOptions {
  externalId: string;
  /** An earlier request under the same key may have got as far as the database or the CRM. */
  isContinued: boolean;
  /** Another consumer has to approve it: it is stored, whatever the request prefers. */
  needsApproval: boolean;
  /** 202 is enough. */
  mayBeAccepted: boolean;
  /** So long the caller waits for the record all the same. */
  waitSeconds: number;
  /** Milliseconds since 1970: no earlier try of the same request was made before. */
  since?: number | undefined;
  /** The claim of the request's key, where it hands one result off under one. */
  claim?: Claim | undefined;
}

/** Hand-offs, made at once or accepted and delivered later. */
export interface Handoffs {
  /** `accept`: also a hand-off whose caller did not ask for it is stored where the CRM fails. */
  readonly whenCrmIsUnavailable: 'refuse' | 'accept';
  /**
   * The confirmation, or what the hand-off waits for where it is stored. Throws `Problem`: the CRM's refusal, `offer_expired`,
   * `store_unavailable`, and `crm_unavailable` where too many wait.
   */
  handOff(
    request: HandoffRequest,
    options: HandOffOptions,
    call: Call,
  ): Promise<HandoffConfirmation | 'accepted' | 'awaiting_approval'>;
  /**
   * What the item's hand-off waits for, with the content of this one where it says so; undefined where none waits. Throws
   * `conflict` for another member, and `idempotency_in_progress` while the one before is delivered or removed.
   */
  meetStored(
    options: Pick<HandOffOptions, 'externalId' | 'needsApproval'>,
    request: HandoffRequest,
    call: Call,
  ): Promise<'accepted' | 'awaiting_approval' | undefined>;
  /** Throws `store_unavailable`, as all below. */
  find(externalId: string): Promise<StoredHandoff | undefined>;
  list(query: HandoffQuery): Promise<StoredHandoff[]>;
  /** JSON text of what is to be written; undefined once it is not needed any more. */
  details(externalId: string): Promise<string | undefined>;
  /** The fields that the mapping takes from it; none once it is not needed any more. */
  namesFrom(handoff: StoredHandoff): Promise<string[]>;
  /**
   * Approves or rejects one of another consumer; the same decision again changes nothing. Returns it as it is then. Throws
   * `conflict` where it does not wait for that any more, `precondition_failed` where it holds something else than was seen.
   */
  decide(decision: Decision): Promise<StoredHandoff>;
  /** Has a failed one delivered again. Throws `conflict`, and `crm_unavailable` where too many wait. */
  retry(handoff: StoredHandoff): Promise<void>;
  /** Cancels one that waits or has failed, or is only in one of these states, or is cancelled already. Throws `conflict`. */
  cancel(handoff: StoredHandoff, states?: readonly HandoffStatus[]): Promise<void>;
  /** What waits, for the health report. Throws what the database does. */
  checkHealth(): Promise<{ connected: true; waiting: number; oldest_seconds: number }>;
  /** Deletes those that were done so many days ago. Throws what the database does. */
  deleteOld(signal?: AbortSignal): Promise<void>;
  /** Has those that failed delivered again at once. Throws what the database does. */
  resume(): Promise<void>;
  start(): void;
  /** Waits for what is under way. */
  stop(): Promise<void>;
}

export interface HandoffsOptions extends Omit<HandoffDeliveryOptions, 'table' | 'settle'> {
  database: Database;
  /** Of the consumers whose hand-offs are accepted and delivered. */
  mode: Mode;
  metrics: HandoffMetrics;
  whenCrmIsUnavailable: 'refuse' | 'accept';
  queueLimit: number;
  queueLimitPerConsumer: number;
  /** A hand-off as GET shows it, for events. */
  eventData: (handoff: StoredHandoff) => object;
}

const retentionDays = 30;
/** New ones that share a statement: each may hold a megabyte. */
const acceptedAtOnce = 50;

const kept = { keeps: 'keeps accepted hand-offs' };

export function createHandoffs(options: HandoffsOptions): Handoffs {
  return new AcceptedHandoffs(options);
}

/** Those of live consumers and those of test consumers: neither fills the queue of the other, nor holds its delivery up. */
export function liveOrTestHandoffs(handoffs: Record<Mode, Handoffs>): Handoffs {
  const { live, test } = handoffs;
  const of = (one: { consumerId?: string | undefined }) => adapterFor(one, handoffs);
  return {
    whenCrmIsUnavailable: live.whenCrmIsUnavailable,
    handOff: (request, options, call) => of(call).handOff(request, options, call),
    meetStored: (options, request, call) => of(call).meetStored(options, request, call),
    find: (externalId) => live.find(externalId),
    list: (query) => live.list(query),
    details: (externalId) => live.details(externalId),
    namesFrom: (handoff) => live.namesFrom(handoff),
    decide: (decision) => of({ consumerId: decision.by.consumer_id }).decide(decision),
    retry: (handoff) => of(handoff).retry(handoff),
    cancel: (handoff, states) => of(handoff).cancel(handoff, states),
    checkHealth: () => live.checkHealth(),
    deleteOld: (signal) => live.deleteOld(signal),
    resume: () => live.resume(),
    start() {
      live.start();
      test.start();
    },
    async stop() {
      await Promise.all([live.stop(), test.stop()]);
    },
  };
}

class AcceptedHandoffs implements Handoffs {
  readonly whenCrmIsUnavailable;
  readonly #options: HandoffsOptions;
  readonly #table: HandoffsTable;
  readonly #limits: QueueLimits;
  readonly #delivery: HandoffDelivery;
  readonly #accept: (handoff: NewHandoff) => Promise<HandoffLease | 'known' | undefined>;
  /** Tries that go on after their request was answered. */
  readonly #underWay = new Set<Promise<void>>();
  #polling: Polling | undefined;

  constructor(options: HandoffsOptions) {
    const { database, mode, queueLimit, queueLimitPerConsumer } = options;
    const table = new HandoffsTable(database, mode);
    this.#options = options;
    this.whenCrmIsUnavailable = options.whenCrmIsUnavailable;
    this.#table = table;
    this.#limits = { inAll: queueLimit, ofConsumer: queueLimitPerConsumer };
    this.#delivery = new HandoffDelivery({ ...options, table, settle: (settled) => this.#settle(settled) });
    this.#accept = createBatcher({
      execute: (handoffs: NewHandoff[]) => table.accept(handoffs, this.#limits, this.#eventOf),
      // One after the other: so the limit holds, and the order is that of arrival.
      inFlight: 1,
      batchSize: acceptedAtOnce,
      identity: ({ externalId }) => externalId,
      isShared: isUnavailable,
      isHung,
    });
  }

  async handOff(request: HandoffRequest, options: HandOffOptions, call: Call) {
    const { isContinued, mayBeAccepted, waitSeconds } = options;
    const waiting = await this.#storedBefore(request, options, call);
    if (waiting) return waiting;
    if (!isContinued) requireValid(request);
    const handoff = newHandoff(request, options, call);
    if (handoff.needsApproval) return this.#storeForLater(handoff, call);
    const delaySeconds = delayOfTest(request.memberId, call);
    if (delaySeconds !== undefined) return this.#storeForLater({ ...handoff, delaySeconds }, call);
    if (!mayBeAccepted) return this.#makeOrAccept(handoff, options.claim, call);
    if (waitSeconds > 0) return this.#storeAndTry(handoff, waitSeconds, call);
    return this.#storeForLater(handoff, call);
  }

  /** What waits already: of a request that was interrupted, or of the item. */
  async #storedBefore(
    request: HandoffRequest,
    { externalId, isContinued, needsApproval, since = 0 }: HandOffOptions,
    call: Call,
  ) {
    const stored = isContinued ? await this.find(externalId) : undefined;
    if (stored && (request.reference === undefined || stored.acceptedAt.getTime() >= since))
      return stored.approval ? 'awaiting_approval' : 'accepted';
    return this.meetStored({ externalId, needsApproval }, request, call);
  }

  async meetStored(
    { externalId, needsApproval }: Pick<HandOffOptions, 'externalId' | 'needsApproval'>,
    request: HandoffRequest,
    call: Call,
  ) {
    if (request.reference === undefined) return undefined;
    const { database } = this.#options;
    for (const pauseMs of pausesMs) {
      const stored = await this.find(externalId);
      requireSameItem(stored, request);
      const again = { stored, request, origin: originOf(call), needsApproval };
      const met = await atStore(() => meetStored(database, again, this.#eventOf));
      if (met !== 'busy') return met;
      await sleep(pauseMs);
    }
    throw itemInUse();
  }

  async #storeForLater(handoff: NewHandoff, call: Call) {
    const { needsApproval } = handoff;
    const known = await this.#knownRecord(handoff, call);
    if (known) return known;
    const isNew = (await this.#store(handoff)) !== 'known';
    if (isNew && needsApproval) this.#options.metrics.acceptedHandoffs.inc({ result: 'awaiting_approval' });
    if (isNew && !needsApproval) this.#noteAccepted();
    return needsApproval ? 'awaiting_approval' : 'accepted';
  }

  /**
   * The record that is there already, for which nothing is stored: one that an earlier request has made needs nobody's approval
   * any more, and an item that has one is not changed without. Throws `approval_required`, `conflict`.
   */
  async #knownRecord(handoff: NewHandoff, call: Call): Promise<HandoffConfirmation | undefined> {
    const { type, externalId, mayExist, needsApproval, reference } = handoff;
    if (!mayExist && !(needsApproval && reference !== undefined)) return undefined;
    const record = await this.#findMade(handoff, call);
    if (record === undefined) return undefined;
    if (reference === undefined) return confirm(type, record, externalId);
    return knownItem(handoff, this.#options.resources[type], record);
  }

  /**
   * The record, deleted ones included. While the CRM can't be asked, a hand-off is stored and its delivery looks first; but one
   * that needs approval now may have been made without. Throws `Problem`.
   */
  async #findMade({ type, externalId, needsApproval, mayExist }: NewHandoff, call: Call) {
    const { records, resources } = this.#options;
    try {
      return await records.findWithDeleted(resources[type], externalId, call);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (!(needsApproval && mayExist) && mayPass(error)) return undefined;
      throw new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true, externalId });
    }
  }

  async #storeAndTry(handoff: NewHandoff, seconds: number, call: Call) {
    const stored = await this.#store({ ...handoff, isHeld: true });
    if (stored === 'known') return 'accepted';
    return this.#tryFor(seconds, { ...handoff, ...stored, failures: 0 }, call);
  }

  async #makeOrAccept(handoff: NewHandoff, claim: Claim | undefined, call: Call) {
    try {
      return await handOff(this.#options, handoff, { ...handoff, claim }, call);
    } catch (error) {
      if (this.whenCrmIsUnavailable === 'refuse' || !mayPass(error)) throw error;
      return this.#acceptInstead({ ...handoff, mayExist: handoff.mayExist || isUnknown(error) }, error);
    }
  }

  async #store(handoff: NewHandoff): Promise<HandoffLease | 'known'> {
    await this.#forgetCreated(handoff);
    const facts = { ...kept, outcomeUnknown: true, externalId: handoff.externalId };
    const stored = await orUnavailable(() => this.#accept(handoff), facts);
    if (stored === undefined) throw queueFull();
    return stored;
  }

  /** Of an item that was delivered before. Whether it still has its record is seen at the delivery. */
  async #forgetCreated({ reference, externalId }: NewHandoff): Promise<void> {
    if (reference === undefined) return;
    await atStore(() => makeRoom(this.#options.database, externalId, ['created']));
  }

  /** Where it can't be stored, the caller hears of the CRM's failure. */
  async #acceptInstead(handoff: NewHandoff, error: Problem) {
    await this.#forgetCreated(handoff).catch(() => undefined);
    const stored = await this.#accept(handoff).catch(() => {
      // The answer may have been lost: then it is stored, and delivered later.
      const { externalId } = handoff;
      throw new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true, externalId });
    });
    if (stored === undefined) throw error;
    this.#noteAccepted();
    return 'accepted' as const;
  }

  /** One that is stored already is tried as if it were not; what is not answered in time goes on as accepted. */
  async #tryFor(seconds: number, taken: TakenHandoff, call: Call) {
    const trying = deliver(this.#options, taken, call);
    const timer = new AbortController();
    const late = sleep(seconds * 1000, { signal: timer.signal }).catch(() => undefined);
    const ended = await Promise.race([trying, late]);
    timer.abort();
    if (ended?.status === 'created') {
      // Should the database fail, it stays, and is delivered once more, which makes no other record.
      const isDropped = await this.#table.drop(taken).catch(() => true);
      // One that was cancelled meanwhile is not confirmed: its record is removed.
      if (isDropped) return confirm(taken.type, ended, taken.externalId);
    }
    const isDropped = ended?.status === 'failed' && (await this.#table.drop(taken).catch(() => false));
    if (isDropped) throw problemOf(ended.refusal);
    this.#noteAccepted();
    this.#settleLater(taken, trying);
    return 'accepted' as const;
  }

  /** Stores how a try ended, when it does. */
  #settleLater(handoff: TakenHandoff, trying: ReturnType<typeof deliver>): void {
    const going = trying
      .then((ended) => this.#settle([{ handoff, outcome: outcomeOf(ended, handoff) }]))
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

  async decide(decision: Decision): Promise<StoredHandoff> {
    const { metrics, log, database } = this.#options;
    const { externalId, verdict, contentStamp, audit } = decision;
    const decided = await atStore(() => decide(database, decision, this.#eventOf));
    if (decided === undefined) {
      const found = await this.find(externalId);
      if (found && contentStamp !== undefined && found.contentStamp !== contentStamp) throw contentReplaced();
      if (found?.approval?.status === verdict) return found;
      throw new Problem('conflict', whyUndecidable(found, verdict));
    }
    logAuditEvent(log, audit);
    if (verdict === 'approved') this.#noteAccepted();
    else metrics.acceptedHandoffs.inc({ result: 'rejected' });
    return decided;
  }

  find(externalId: string) {
    return atStore(() => this.#table.find(externalId));
  }

  list(query: HandoffQuery) {
    return atStore(() => this.#table.list(query));
  }

  details(externalId: string) {
    return atStore(() => this.#table.details(externalId));
  }

  async namesFrom({ externalId, type, tripId, memberId, name, source }: StoredHandoff): Promise<string[]> {
    const details = await this.details(externalId);
    if (details === undefined) return [];
    const result = { name, source, details: JSON.parse(details) as unknown };
    return namesFrom(this.#options.resources[type], { type, trip_id: tripId, member_id: memberId, result });
  }

  async retry({ externalId }: StoredHandoff): Promise<void> {
    const retried = await atStore(() => this.#table.retry(externalId, this.#limits));
    if (retried === 'full') throw queueFull();
    if (retried === undefined)
      throw new Problem('conflict', 'Only a hand-off that has failed can be tried again. Read it.');
    setImmediate(() => this.#polling?.wake());
  }

  async cancel({ externalId }: StoredHandoff, states?: readonly HandoffStatus[]): Promise<void> {
    if (await atStore(() => this.#table.cancel(externalId, states))) {
      this.#options.metrics.acceptedHandoffs.inc({ result: 'cancelled' });
      return;
    }
    const status = (await this.find(externalId))?.status;
    if (status === 'created')
      throw new Problem('conflict', 'The hand-off is created already: the CRM has its record.');
    if (status !== 'cancelled')
      throw new Problem('conflict', `The hand-off is ${status}: it can no longer be cancelled.`);
  }

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

  async deleteOld(signal?: AbortSignal): Promise<void> {
    await this.#table.deleteOlderThan(retentionDays, signal);
  }

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
  const { externalId, isContinued: mayExist, needsApproval, since = wallMs() } = options;
  return { ...request, ...originOf(call), externalId, mayExist, isHeld: false, needsApproval, since };
}

function originOf({ requestId, consumerId = '', consumerName, actor, subject }: Call): Origin {
  return { requestId, consumerId, consumerName, actor, subject };
}

/** As it is stored of a try that no other shared. */
function outcomeOf(ended: Awaited<ReturnType<typeof deliver>>, { mayExist }: TakenHandoff): HandoffOutcome {
  if (ended.status !== 'open') return ended;
  return { status: 'accepted', mayExist: mayExist || isUnknown(ended.error), failures: 0, pauseSeconds: 0 };
}

export function problemOf({ code, detail, errors }: NonNullable<StoredHandoff['refusal']>): Problem {
  return new Problem(code, detail, errors && { errors });
}

function queueFull(): Problem {
  return new Problem('crm_unavailable', 'Too many hand-offs are waiting.', { retryAfter: 60 });
}

function atStore<T>(work: () => Promise<T>): Promise<T> {
  return orUnavailable(work, kept);
}
