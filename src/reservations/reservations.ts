import { randomUUID } from 'node:crypto';
import { type Call, startCall } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import type { StoredAnswer } from '../idempotency/claims-table.ts';
import { type Claim, type ExecutedAnswer, inProgress } from '../idempotency/ledger.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Database } from '../store/database.ts';
import { type Answers, answerTo } from './answers.ts';
import { createDriver } from './driver.ts';
import { lookAtParts } from './parts.ts';
import type { Plan, ReservationOrder } from './plan.ts';
import { PlansTable } from './plans-table.ts';
import { StillPending, type Systems } from './steps.ts';
import { type ReservationView, viewOf } from './view.ts';

/** Reservations that span a table at the dining partner and a booking in the CRM. */
export interface Reservations {
  /** Name of the dining partner's connector. */
  readonly partner: string;
  /**
   * Makes both parts or none, and completes the claim. Throws what may pass (the job goes on with it then, unless
   * nothing was made), `idempotency_in_progress` where somebody else drives it, `store_unavailable`.
   */
  create(order: NewReservation, claim: Claim, call: Call): Promise<ExecutedAnswer>;
  /** Cancels both parts, as `create` makes them. Throws `not_found`, `conflict`. */
  cancel(id: string, claim: Claim, call: Call): Promise<ExecutedAnswer>;
  /** The reservation, joined with how its parts stand now; undefined where there is none. Throws `store_unavailable`. */
  read(id: string, call: Call): Promise<ReservationView | undefined>;
  /** Whether a reservation needs the CRM booking with this id. Throws `store_unavailable`. */
  holds(bookingId: string): Promise<boolean>;
  /**
   * Takes one plan that nobody drives and that is due; what is returned drives it on, and never throws. Undefined where
   * there is none.
   */
  takeDue(): Promise<(() => Promise<void>) | undefined>;
  /** Forgets refused reservations whose answers are forgotten too. */
  clear(): Promise<void>;
}

export interface NewReservation {
  order: ReservationOrder;
  /** JSON text of an object. */
  details: string | undefined;
}

export interface ReservationsOptions extends Omit<Systems, 'isOthersTable'> {
  database: Database;
  log: Log;
  metrics: Metrics;
  answers: Answers;
  retentionHours: number;
}

export function createReservations(options: ReservationsOptions): Reservations {
  const { database, dining, answers, log, retentionHours } = options;
  const plans = new PlansTable(database);
  const driver = createDriver({
    ...options,
    plans,
    systems: { ...options, isOthersTable: (reference, id) => plans.hasTable(reference, id) },
    answer: (plan, outcome) => answerTo(answers, plan, outcome),
  });

  async function driveOn(plan: Plan): Promise<void> {
    try {
      await driver.drive(plan, startCall(randomUUID()));
    } catch (error) {
      if (error instanceof StillPending) return;
      const facts = { err: error, reservation_id: plan.id, state: plan.state };
      log.warn(facts, 'a reservation could not be finished and is tried again later');
    }
  }

  return {
    partner: dining.name,
    async create({ order, details }, claim, call) {
      const begun = await plans.begin({
        id: claim.externalId,
        order,
        details,
        partner: dining.name,
        tableToken: randomUUID(),
        owed: owedTo(claim, call),
      });
      if (!begun) throw inProgress();
      return stored(await driver.drive(begun.plan, call, { fresh: begun.fresh }));
    },
    async cancel(id, claim, call) {
      const plan = await plans.beginCancel(id, owedTo(claim, call));
      if (plan) return stored(await driver.drive(plan, call));
      return whyNotCancelled(await plans.find(id), claim, answers);
    },
    async read(id, call) {
      const plan = await plans.find(id);
      if (!plan || plan.state === 'refused') return undefined;
      return viewOf(plan, await lookAtParts(options, plan, call));
    },
    holds: (bookingId) => plans.holds(bookingId),
    async takeDue() {
      const plan = await plans.takeDue();
      return plan && (() => driveOn(plan));
    },
    clear: () => plans.clearRefused(retentionHours),
  };
}

/** The claim is completed already; undefined: the plan came to somebody else. */
function stored(answer: StoredAnswer | undefined): ExecutedAnswer {
  if (!answer) throw inProgress();
  return { ...answer, isStored: true };
}

function owedTo({ consumerId, key, externalId }: Claim, { requestId }: Call) {
  return { consumerId, key, externalId, requestId };
}

/** A reservation that can't be cancelled now. */
function whyNotCancelled(plan: Plan | undefined, claim: Claim, answers: Answers): ExecutedAnswer {
  if (!plan || plan.state === 'refused')
    throw new Problem('not_found', 'There is no reservation with this id.');
  if (plan.state === 'cancelled') return answers.cancelled();
  if (plan.state === 'failed')
    throw new Problem('conflict', 'The partner decided against the reservation: there is nothing to cancel.');
  if (plan.owed?.key === claim.key && plan.owed.consumerId === claim.consumerId) throw inProgress();
  const isCancelled = plan.state === 'cancelling_table' || plan.state === 'writing_cancellation';
  const doing = isCancelled ? 'cancelled already' : 'made or taken back';
  throw new Problem(
    'conflict',
    `The reservation is just being ${doing}. Read it, and try again later with a new key.`,
  );
}
