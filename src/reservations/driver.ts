import type { Call } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import type { StoredAnswer } from '../idempotency/claims-table.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { isResting, type Plan, type PlanState } from './plan.ts';
import type { Move, Outcome, PlansTable } from './plans-table.ts';
import { firstPoll, StillPending, type Systems, takeStep } from './steps.ts';

/** How long a failed step is left alone, in seconds: 1, 2, 4 ... */
const longestPause = 30;
/** The partner's decision is asked for less and less often. */
const longestPoll = 60;

/** Moves plans on, step by step; whoever uses it owns the plan by its fence. */
export interface Driver {
  /**
   * Drives until the keyed request is answered or nothing is left to do. Undefined where the plan came to somebody
   * else meanwhile, or owed nothing. Throws what stopped it; the plan was given back then.
   */
  drive(plan: Plan, call: Call, options?: { fresh?: boolean }): Promise<StoredAnswer | undefined>;
}

export interface DriverOptions {
  plans: PlansTable;
  systems: Systems;
  log: Log;
  metrics: Metrics;
  /** What the keyed request gets, now that its plan has come so far. */
  answer: (plan: Plan, outcome: Outcome) => StoredAnswer;
}

export function createDriver({ plans, systems, log, metrics, answer }: DriverOptions): Driver {
  /** Carries out the next step; undefined where the plan is somebody else's by now. */
  async function advance(plan: Plan, fresh: boolean, call: Call) {
    const move = await takeStep({ plan, fresh, systems, call });
    if (isSameAttention(plan, move)) {
      await plans.release(plan, move.again ?? 0);
      return undefined;
    }
    const moved = await plans.move(plan, move, answer);
    if (moved) note(moved.plan, plan.state);
    return moved;
  }

  function note({ id, state, attention }: Plan, from: PlanState): void {
    if (attention !== undefined) {
      log.error({ reservation_id: id, state, attention }, 'a reservation needs attention');
      metrics.reservationOutcomes.inc({ outcome: 'needs_attention' });
    } else if (isResting({ state }) && from !== 'cancelling_table') {
      metrics.reservationOutcomes.inc({ outcome: state });
    }
  }

  /** If even that fails, the lease runs out by itself. */
  async function giveBack(plan: Plan, error: unknown): Promise<void> {
    const [first, most] = error instanceof StillPending ? [firstPoll, longestPoll] : [1, longestPause];
    await plans.release(plan, Math.min(most, first * 2 ** Math.min(plan.attempts, 10))).catch(() => {});
  }

  /** Gives a plan back that could not go on; what to throw. */
  async function fail(plan: Plan, isFresh: boolean, error: unknown): Promise<unknown> {
    const isUntouched = isFresh && plan.state === 'making_booking' && isHarmless(error);
    if (isUntouched && (await plans.drop(plan).catch(() => false))) return error;
    await giveBack(plan, error);
    return error instanceof StillPending ? error : unfinished(error);
  }

  return {
    async drive(started, call, { fresh = false } = {}) {
      let plan = started;
      let isFresh = fresh;
      for (;;) {
        const moved = await advance(plan, isFresh, call).catch(async (error: unknown) => {
          throw await fail(plan, isFresh, error);
        });
        if (!moved || moved.answer || isAtRest(moved.plan)) return moved?.answer;
        ({ plan } = moved);
        isFresh = true;
      }
    },
  };
}

function isAtRest(plan: Plan): boolean {
  return isResting(plan) || plan.attention !== undefined;
}

/** It was marked before, and still can't go on. */
function isSameAttention(plan: Plan, move: Move): boolean {
  return move.attention !== undefined && move.attention === plan.attention;
}

/** Nothing was made, and nothing will come of it later. */
function isHarmless(error: unknown): boolean {
  return error instanceof Problem && !error.facts.outcomeUnknown;
}

/** Something may have been made, and the job goes on with it: the caller must not take it for not done. */
function unfinished(error: unknown): unknown {
  if (!(error instanceof Problem)) return error;
  return new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true });
}
