import { storedBytes } from '../../api/idempotency/answer-text.ts';
import type { StoredAnswer } from '../../api/idempotency/keyed-request.ts';
import { type Call, modeOf } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { ReservationMetrics } from './metrics.ts';
import { isResting, type Plan, type PlanState } from './plan.ts';
import type { Move, PlansTable, RequestOutcome, TakenPlan } from './plans-table.ts';
import { firstPoll, refusalOf, StillPending, type Systems, takeStep } from './steps.ts';
import { eventOf } from './view.ts';

/** How long a failed step is left alone, in seconds. */
const pauses = { first: 1, most: 30 };
const polls = { first: firstPoll, most: 60 };

export interface DriverOptions {
  plans: PlansTable;
  systems: Systems;
  log: Log;
  metrics: Pick<Metrics, 'idempotencyStoredBytes'> & Pick<ReservationMetrics, 'reservationOutcomes'>;
  answer: (plan: Plan, outcome: RequestOutcome) => StoredAnswer;
}

export function createDriver({ plans, systems, log, metrics, answer }: DriverOptions) {
  /** Executes the next step; undefined where another driver has the plan by now. */
  async function advance(plan: TakenPlan, fresh: boolean, call: Call) {
    const move = await takeStep({ plan, fresh, systems, call }).catch(async (error: unknown) => {
      if (await dropUntouched(plan, fresh, error)) throw error;
      throw await giveBack(plan, error);
    });
    // From here on the step's call was made, also where the database can't store it.
    return store(plan, move).catch(async (error: unknown) => {
      throw await giveBack(plan, error);
    });
  }

  async function store(plan: TakenPlan, move: Move) {
    // It was marked before, and still can't go on.
    if (move.attention !== undefined && move.attention === plan.attention) {
      await plans.release(plan, move.again ?? 0);
      return undefined;
    }
    const moveTo = (next: Move) => plans.move(plan, next, { answer, eventOf });
    const moved = await moveTo(move).catch((error: unknown) =>
      moveTo({ state: 'undoing', refusal: refusalOf(error) }),
    );
    if (moved) note(moved.plan, plan.state);
    if (moved?.packed) metrics.idempotencyStoredBytes.inc(storedBytes(moved.packed));
    return moved;
  }

  /** Test consumers are left out: what they bring about is no matter of operators. */
  function note({ id, state, attention, creator }: Plan, from: PlanState): void {
    if (modeOf(creator.consumerId) === 'test') return;
    if (attention !== undefined) {
      log.error({ reservation_id: id, state, attention }, 'a reservation needs attention');
      metrics.reservationOutcomes.inc({ outcome: 'needs_attention' });
    } else if (isResting({ state }) && from !== state && from !== 'cancelling_table') {
      metrics.reservationOutcomes.inc({ outcome: state });
    }
  }

  async function dropUntouched(plan: Plan, isFresh: boolean, error: unknown): Promise<boolean> {
    const isUntouched = isFresh && plan.state === 'making_booking' && isHarmless(error);
    return isUntouched && (await plans.drop(plan).catch(() => false));
  }

  /** Gives a plan back that could not go on; what to throw. If even that fails, the lease runs out by itself. */
  async function giveBack(plan: Plan, error: unknown): Promise<unknown> {
    const seconds = pauseAfter(plan.attempts + 1, error instanceof StillPending ? polls : pauses);
    await plans.release(plan, seconds).catch(() => {});
    return error instanceof StillPending ? error : unfinished(error);
  }

  return {
    /**
     * Drives until the keyed request is answered or nothing is left to do. Undefined where another driver has taken the
     * plan meanwhile, or no request waited for it. Throws what stopped it; the plan was given back then.
     */
    async drive(
      started: TakenPlan,
      call: Call,
      { fresh = false }: { fresh?: boolean } = {},
    ): Promise<StoredAnswer | undefined> {
      let plan = started;
      let isFresh = fresh;
      for (;;) {
        const moved = await advance(plan, isFresh, call);
        if (!moved || moved.answer || isResting(moved.plan) || moved.plan.attention !== undefined)
          return moved?.answer;
        ({ plan } = moved);
        isFresh = true;
      }
    },
  };
}

function isHarmless(error: unknown): boolean {
  return error instanceof Problem && !error.facts.outcomeUnknown;
}

/** Something may have been made, and the job goes on with it: the caller must not take it for not done. */
function unfinished(error: unknown): unknown {
  return error instanceof Problem ? error.asUnknown() : error;
}
