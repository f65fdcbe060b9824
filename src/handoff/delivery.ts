import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Call, startCall, type Visible } from '../base/call.ts';
import { now } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { Log } from '../observability/log.ts';
import type { Records } from '../resources/records.ts';
import type { Outcome, Settled, TakenHandoff } from './accepted.ts';
import { deliver, isUnknown, mayBeOwn, type Try } from './deliver.ts';
import { targets } from './handoff.ts';
import type { HandoffsTable, RecordToRemove } from './handoffs-table.ts';

/** Hand-offs that are delivered together at most, as many as one call to the CRM takes. */
const largestPiece = 200;
/** After a failure that all met, so long from the start of one try to the start of the next. */
const probeEveryMs = 5000;
/** What one piece has, well within its lease; and what it may take to see whether the CRM answers at all. */
const pieceMs = 25_000;
const lookMs = 3000;
/** A hand-off over which the CRM itself fails is given up after so many tries, if the CRM took others meanwhile. */
const mostTroubles = 5;
const longestPauseSeconds = 300;
/** How recently the CRM must have taken another hand-off. */
const recentMs = 600_000;
/** Records of cancelled hand-offs that are looked for at once, and the pause before the next look. */
const removedAtOnce = 20;
const lookAgainSeconds = 20;

export interface DeliveryOptions {
  table: HandoffsTable;
  records: Records;
  /** Whether this process delivers for all: renewed every few seconds, for at most ten. Throws what the database does. */
  holdTurn: () => Promise<boolean>;
  /** Stores how tries ended. Throws what the database does. */
  settle: (settled: readonly Settled[]) => Promise<void>;
  /** Which records of a resource a consumer sees: who sees only its own needs to be written into what is made for it. */
  visibleTo: (consumerId: string, resource: string) => Visible;
  log: Log;
}

type Ended = { handoff: TakenHandoff; ended: Try };

/**
 * Delivers accepted hand-offs, in pieces, in the order of acceptance; one process at a time, so that the order holds and
 * the CRM is probed by one only. The size of a piece follows from how the last one went:
 *
 *   all of it met the same failure   the CRM is unavailable: one hand-off every 5 s shows when it is back
 *   some of it was delivered         four times as many next, up to a whole call
 *
 * A hand-off that failed while others were taken is in trouble: it is set aside, and tried alone after a longer and
 * longer pause, so that it holds up no other.
 */
export class Delivery {
  readonly #options: DeliveryOptions;
  #pieceSize = largestPiece;
  /** The last piece met nothing but failures. */
  #isProbing = false;
  /** By `now()`. */
  #deliveredAt = Number.NEGATIVE_INFINITY;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  /** Delivers until nothing is due. Throws what the database does; what was taken is due again after its lease. */
  async run(stopping: AbortSignal): Promise<void> {
    if (!(await this.#options.holdTurn())) return;
    while (!stopping.aborted) {
      const startedAt = now();
      const piece = await this.#take();
      const isIdle = piece.length === 0 && !(await this.#removeCancelled());
      if (isIdle) return;
      if (piece.length > 0) await this.#whileHolding(() => this.#deliverPiece(piece));
      if (this.#isProbing) await this.#pause(startedAt + probeEveryMs - now(), stopping);
      if (!(await this.#options.holdTurn())) return;
    }
  }

  async #take(): Promise<TakenHandoff[]> {
    const { table } = this.#options;
    const troubled = this.#isProbing ? [] : await table.takeTroubled();
    return troubled.length > 0 ? troubled : table.take(this.#pieceSize);
  }

  /** Keeps the turn while the work goes on: a call may take longer than the turn is held. */
  async #whileHolding(work: () => Promise<void>): Promise<void> {
    const timer = setInterval(() => void this.#options.holdTurn().catch(() => false), 3000);
    try {
      await work();
    } finally {
      clearInterval(timer);
    }
  }

  async #pause(ms: number, stopping: AbortSignal): Promise<void> {
    if (ms <= 0) return;
    await this.#whileHolding(() => delay(ms, undefined, { signal: stopping }).catch(() => {}));
  }

  async #deliverPiece(piece: readonly TakenHandoff[]): Promise<void> {
    const background = this.#isProbing ? 'probe' : 'batch';
    const tries = await Promise.all(
      piece.map(async (handoff) => {
        const { visibleTo } = this.#options;
        const visible = (resource: string) => visibleTo(handoff.consumerId, resource);
        const call = { ...backgroundCall(handoff, background, pieceMs), visible };
        return { handoff, ended: await deliver(this.#options.records, handoff, call) };
      }),
    );
    const settled = await Promise.all(tries.map((one) => this.#judge(one, tries)));
    if (settled.some(({ outcome }) => outcome.status === 'created')) this.#deliveredAt = now();
    if (!settled.every(isStillInTrouble)) this.#note(settled, tries);
    await this.#options.settle(settled);
  }

  /** Learns from how a piece went. */
  #note(settled: readonly Settled[], tries: readonly Ended[]): void {
    const [first] = tries;
    const { log } = this.#options;
    // The service's own budget has no call for it yet: the CRM may be well, and one call takes all of them.
    if (tries.every(isPaced)) return;
    const isAnswered = settled.some(({ outcome }) => outcome.status !== 'accepted');
    if (isAnswered) {
      if (this.#isProbing) log.info({}, 'accepted hand-offs are delivered again');
      this.#pieceSize = Math.min(largestPiece, this.#pieceSize * 4);
    } else {
      const err = first?.ended.status === 'open' ? first.ended.error : undefined;
      if (!this.#isProbing) log.warn({ err }, 'accepted hand-offs wait: the CRM takes none');
      this.#pieceSize = 1;
    }
    this.#isProbing = !isAnswered;
  }

  /** What is stored of a try, in view of how the others of its piece went. */
  async #judge(
    { handoff, ended }: Ended,
    piece: readonly Ended[],
  ): Promise<Settled & { handoff: TakenHandoff }> {
    if (ended.status !== 'open') return { handoff, outcome: ended };
    const { error } = ended;
    const { externalId, troubles } = handoff;
    const mayExist = handoff.mayExist || isUnknown(error);
    const waits = { status: 'accepted', mayExist, troubles, pauseSeconds: 0 } as const;
    if (!mayBeOwn(error)) return { handoff, outcome: waits };
    const ofSameCall = piece.filter((other) => other.handoff.type === handoff.type);
    const others = ofSameCall.filter(({ ended: { status } }) => status !== 'open');
    if (others.length === 0) {
      if (ofSameCall.length > 1) return { handoff, outcome: waits };
      // It was alone: only another call can tell whether it is the hand-off or the CRM.
      const found = await this.#look(handoff);
      if (found === undefined) return { handoff, outcome: waits };
      if (found !== 'none') return { handoff, outcome: { status: 'created', nativeId: found.nativeId } };
    }
    this.#options.log.warn(
      { err: error, external_id: externalId },
      'a hand-off is in trouble and is tried again alone',
    );
    return { handoff, outcome: this.#inTrouble(handoff, error, mayExist) };
  }

  #inTrouble({ troubles }: TakenHandoff, error: unknown, mayExist: boolean): Outcome {
    const isCrmWell = now() - this.#deliveredAt < recentMs;
    const { code, message } = error as Problem;
    if (code === 'crm_error' && troubles + 1 >= mostTroubles && isCrmWell)
      return { status: 'failed', refusal: { code, detail: message } };
    const pauseSeconds = Math.min(longestPauseSeconds, 5 * 2 ** Math.min(troubles, 10));
    return { status: 'accepted', mayExist, troubles: troubles + 1, pauseSeconds };
  }

  /** The record, `none`, or undefined where the CRM does not answer. */
  async #look(handoff: TakenHandoff): Promise<{ nativeId: string } | 'none' | undefined> {
    const { type, externalId } = handoff;
    const call = backgroundCall(handoff, 'probe', lookMs);
    try {
      return (await this.#options.records.find(targets[type], externalId, call)) ?? 'none';
    } catch {
      return undefined;
    }
  }

  /** Removes what calls have made of hand-offs that were cancelled meanwhile; false where there was none. */
  async #removeCancelled(): Promise<boolean> {
    const { table } = this.#options;
    const found = await table.takeToRemove(removedAtOnce);
    await Promise.all(found.map((one) => this.#remove(one)));
    return found.length > 0;
  }

  async #remove({ external_id: externalId, type, is_last: isLast }: RecordToRemove): Promise<void> {
    const { table, records, log } = this.#options;
    const call = { ...startCall(randomUUID(), undefined, pieceMs), isWrite: true };
    let isSettled = isLast;
    try {
      const record = await records.find(targets[type], externalId, call);
      if (record) await records.remove(targets[type], record, call);
    } catch (err) {
      isSettled = false;
      log.warn(
        { err, external_id: externalId },
        'the record of a cancelled hand-off could not be looked for or removed',
      );
    }
    await table.putOff(externalId, isSettled ? undefined : lookAgainSeconds);
  }
}

function isPaced({ ended }: Ended): boolean {
  return ended.status === 'open' && ended.error instanceof Problem && ended.error.facts.isPaced === true;
}

/** It was alone, and fails again: that says nothing about the others. */
function isStillInTrouble({ handoff, outcome }: { handoff: TakenHandoff; outcome: Outcome }): boolean {
  return outcome.status === 'accepted' && handoff.troubles > 0 && outcome.troubles > handoff.troubles;
}

/** On behalf of who handed it off: the record says so. */
function backgroundCall(handoff: TakenHandoff, background: Call['background'], ms: number): Call {
  const { requestId, consumerId, consumerName, actor } = handoff;
  return { ...startCall(requestId, consumerId, ms), consumerName, actor, background, isWrite: true };
}
