import { setTimeout as delay } from 'node:timers/promises';
import type { Call, Visible } from '../../platform/base/call.ts';
import { type Polling, startPolling } from '../../platform/base/poll.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable, orUnavailable } from '../../platform/store/failures.ts';
import { createBatcher } from '../../platform/store/statement-batcher.ts';
import type { Records } from '../../records/records.ts';
import type { NewEvent } from '../events/event-log.ts';
import type {
  HandoffQuery,
  NewHandoff,
  Origin,
  Outcome,
  Settled,
  StoredHandoff,
  TakenHandoff,
} from './accepted.ts';
import { deliver, isUnknown, mayPass } from './deliver.ts';
import { Delivery } from './delivery.ts';
import { type HandoffConfirmation, type HandoffRequest, handOff, targets } from './handoff.ts';
import { HandoffsTable } from './handoffs-table.ts';
import type { HandoffMetrics } from './metrics.ts';

/** How a hand-off wants to be answered. */
export interface Wish {
  /** 202 is enough. */
  mayBeAccepted: boolean;
  /** So long the caller waits for the record all the same. */
  waitSeconds: number;
}

export interface HandOffOptions extends Wish {
  externalId: string;
  /** An earlier request under the same key may have got as far as the database or the CRM. */
  isContinued: boolean;
}

/** Hand-offs, made at once or accepted and delivered later. */
export interface Handoffs {
  /** `accept`: also a hand-off whose caller did not ask for it is stored where the CRM fails. */
  readonly whenCrmIsUnavailable: 'refuse' | 'accept';
  /**
   * The confirmation, or `accepted` where the hand-off is stored and delivered later. Throws `Problem`: the CRM's refusal,
   * `store_unavailable`, and `crm_unavailable` where too many wait.
   */
  handOff(
    request: HandoffRequest,
    options: HandOffOptions,
    call: Call,
  ): Promise<HandoffConfirmation | 'accepted'>;
  /** Throws `store_unavailable`, as all below. */
  find(externalId: string): Promise<StoredHandoff | undefined>;
  list(query: HandoffQuery): Promise<StoredHandoff[]>;
  /** Has a failed one delivered again. Throws `conflict`, and `crm_unavailable` where too many wait. */
  retry(externalId: string): Promise<void>;
  /** Cancels one that waits or has failed, or is cancelled already. Throws `conflict`. */
  cancel(externalId: string): Promise<void>;
  /** What waits, for the health report. Throws what the database does. */
  checkHealth(): Promise<{ connected: true; waiting: number; oldest_seconds: number }>;
  /** Deletes those that were done so many days ago. Throws what the database does. */
  deleteOld(signal?: AbortSignal): Promise<void>;
  start(): void;
  /** Waits for what is under way. */
  stop(): Promise<void>;
}

export interface HandoffsOptions {
  database: Database;
  records: Records;
  log: Log;
  metrics: HandoffMetrics;
  whenCrmIsUnavailable: 'refuse' | 'accept';
  queueLimit: number;
  queueLimitPerConsumer: number;
  /** Milliseconds for a batch. */
  batchMs: number;
  /** Whether this process is the delivering one for the next ten seconds. Throws what the database does. */
  holdTurn: () => Promise<boolean>;
  /** A hand-off as GET answers it, for events. */
  eventData: (handoff: StoredHandoff) => object;
  /** Which records of a resource a consumer sees now. */
  visibleTo: (consumerId: string, resource: string) => Visible;
}

const retentionDays = 30;
/** New ones that share a statement: each may hold a megabyte. */
const acceptedAtOnce = 50;

const kept = { keeps: 'keeps accepted hand-offs' };

export function createHandoffs(options: HandoffsOptions): Handoffs {
  return new AcceptedHandoffs(options);
}

class AcceptedHandoffs implements Handoffs {
  readonly whenCrmIsUnavailable;
  readonly #options: HandoffsOptions;
  readonly #table: HandoffsTable;
  readonly #delivery: Delivery;
  readonly #accept: (handoff: NewHandoff) => Promise<{ fence: string } | 'known' | undefined>;
  /** Tries that go on after their request was answered. */
  readonly #underWay = new Set<Promise<void>>();
  #polling: Polling | undefined;

  constructor(options: HandoffsOptions) {
    const { database, queueLimit: inAll, queueLimitPerConsumer: ofConsumer } = options;
    const table = new HandoffsTable(database);
    this.#options = options;
    this.whenCrmIsUnavailable = options.whenCrmIsUnavailable;
    this.#table = table;
    this.#delivery = new Delivery({
      ...options,
      table,
      settle: (settled) => this.#settle(settled),
    });
    this.#accept = createBatcher({
      execute: (handoffs: NewHandoff[]) => table.accept(handoffs, { inAll, ofConsumer }),
      // One after the other: so the limit holds, and the order is that of arrival.
      inFlight: 1,
      batchSize: acceptedAtOnce,
      identity: ({ externalId }) => externalId,
      isShared: isUnavailable,
      isHung,
    });
  }

  async handOff(request: HandoffRequest, options: HandOffOptions, call: Call) {
    // A request that was interrupted may have stored it already.
    if (options.isContinued && (await this.find(options.externalId))) return 'accepted';
    if (options.mayBeAccepted) return this.#acceptAndTry(request, options, call);
    try {
      const { externalId, isContinued: mayExist } = options;
      return await handOff(this.#options.records, request, { externalId, mayExist }, call);
    } catch (error) {
      if (this.whenCrmIsUnavailable === 'refuse' || !mayPass(error)) throw error;
      const mayExist = isUnknown(error) || options.isContinued;
      const { externalId } = options;
      return this.#acceptInstead(
        { ...request, ...originOf(call), externalId, mayExist, isHeld: false },
        error,
      );
    }
  }

  async #acceptAndTry(request: HandoffRequest, options: HandOffOptions, call: Call) {
    const { externalId, waitSeconds, isContinued: mayExist } = options;
    const isHeld = waitSeconds > 0;
    const handoff = { ...request, ...originOf(call), externalId, mayExist };
    const stored = await orUnavailable(() => this.#accept({ ...handoff, isHeld }), {
      ...kept,
      outcomeUnknown: true,
      externalId,
    });
    if (stored === undefined) throw queueFull();
    if (stored !== 'known' && isHeld) {
      return this.#tryFor(waitSeconds, { ...handoff, fence: stored.fence, failures: 0 }, call);
    }
    if (stored !== 'known') this.#noteAccepted();
    return 'accepted';
  }

  /** Where it can't be stored, the caller hears of the CRM's failure. */
  async #acceptInstead(handoff: NewHandoff, error: Problem) {
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
    const trying = deliver(this.#options.records, taken, call);
    const timer = new AbortController();
    const late = delay(seconds * 1000, undefined, { signal: timer.signal }).catch(() => undefined);
    const ended = await Promise.race([trying, late]);
    timer.abort();
    if (ended?.status === 'created') {
      // Should the database fail, it stays, and is delivered once more, which makes no other record.
      const isDropped = await this.#table.drop(taken).catch(() => true);
      // One that was cancelled meanwhile is not confirmed: its record is removed.
      if (isDropped) return confirmationOf(taken, ended.nativeId);
    }
    const isDropped = ended?.status === 'failed' && (await this.#table.drop(taken).catch(() => false));
    if (isDropped) throw problemOf(ended.refusal);
    this.#noteAccepted();
    this.#goOn(taken, trying);
    return 'accepted' as const;
  }

  /** Stores how a try ended, when it does. */
  #goOn(handoff: TakenHandoff, trying: ReturnType<typeof deliver>): void {
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
    const { status, externalId, type, consumerId, completedAt } = handoff;
    if ((status !== 'created' && status !== 'failed') || completedAt === undefined) return undefined;
    return {
      type: status === 'created' ? 'handoff.created' : 'handoff.failed',
      resource: { type: 'handoff', id: externalId },
      occurredAt: completedAt.toISOString(),
      data: JSON.stringify(this.#options.eventData(handoff)),
      permission: targets[type].collection,
      consumerId,
    };
  };

  async #settle(settled: readonly Settled[]): Promise<void> {
    const { metrics, log } = this.#options;
    for (const { status, externalId, refusal } of await this.#table.settle(settled, this.#eventOf)) {
      if (status === 'accepted') continue;
      metrics.acceptedHandoffs.inc({ result: status });
      if (status === 'failed')
        log.warn({ external_id: externalId, code: refusal?.code }, 'an accepted hand-off has failed');
    }
  }

  find(externalId: string) {
    return atStore(() => this.#table.find(externalId));
  }

  list(query: HandoffQuery) {
    return atStore(() => this.#table.list(query));
  }

  async retry(externalId: string): Promise<void> {
    const { queueLimit: inAll, queueLimitPerConsumer: ofConsumer } = this.#options;
    const retried = await atStore(() => this.#table.retry(externalId, { inAll, ofConsumer }));
    if (retried === 'full') throw queueFull();
    if (retried === undefined)
      throw new Problem('conflict', 'Only a hand-off that has failed can be tried again. Read it.');
    setImmediate(() => this.#polling?.wake());
  }

  async cancel(externalId: string): Promise<void> {
    if (await atStore(() => this.#table.cancel(externalId))) {
      this.#options.metrics.acceptedHandoffs.inc({ result: 'cancelled' });
    } else if ((await this.find(externalId))?.status !== 'cancelled') {
      throw new Problem('conflict', 'The hand-off is created already: the CRM has its record.');
    }
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

  start(): void {
    this.#polling = startPolling({
      what: 'accepted hand-offs',
      log: this.#options.log,
      check: async (stopping) => {
        const { waiting, hasToRemove } = await this.#look();
        if (waiting > 0 || hasToRemove) await this.#delivery.run(stopping);
      },
    });
    this.#polling.wake();
  }

  async stop(): Promise<void> {
    await this.#polling?.[Symbol.asyncDispose]();
    await this.#delivery.stop();
    await Promise.all(this.#underWay);
  }
}

function originOf({ requestId, consumerId = '', consumerName, actor }: Call): Origin {
  return { requestId, consumerId, consumerName, actor };
}

function confirmationOf({ externalId, type }: TakenHandoff, id: string): HandoffConfirmation {
  return { id, type, status: 'created', external_id: externalId };
}

/** As it is stored of a try that no other shared. */
function outcomeOf(ended: Awaited<ReturnType<typeof deliver>>, { mayExist }: TakenHandoff): Outcome {
  if (ended.status !== 'open') return ended;
  return { status: 'accepted', mayExist: mayExist || isUnknown(ended.error), failures: 0, pauseSeconds: 0 };
}

export function problemOf({ code, detail, errors }: NonNullable<StoredHandoff['refusal']>): Problem {
  return new Problem(code, detail, errors && { errors });
}

function queueFull(): Problem {
  return new Problem('crm_unavailable', 'Too many hand-offs wait for the CRM.', { retryAfter: 60 });
}

function atStore<T>(work: () => Promise<T>): Promise<T> {
  return orUnavailable(work, kept);
}
