import type { StoredAnswer } from '../../api/idempotency/keyed-request.ts';
import { type Claim, type ExecutedAnswer, inProgress } from '../../api/idempotency/ledger.ts';
import { hasChanged } from '../../api/pipeline/request-head.ts';
import { type Call, everything, startCall, type Visible, withChanges } from '../../platform/base/call.ts';
import { randomUUID, wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { startPolling } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { booking } from '../../records/quotes-and-bookings.ts';
import type { TableConnector, TableSlot } from './connectors/connector.ts';
import { createDriver, type DriverOptions } from './driver.ts';
import { type Merchant, requireOffered, whyNotOffered } from './merchants.ts';
import type { ListedPlan, Plan, ReservationOrder } from './plan.ts';
import { type PlanQuery, PlansTable, type RequestOutcome, type TakenPlan } from './plans-table.ts';
import { StillPending, type Systems } from './steps.ts';
import { knownParts, type ReservationView, readParts, viewOfReservation } from './view.ts';

type Availability = (
  slot: TableSlot,
  call: Call,
) => Promise<{
  available: boolean;
  /** RFC 3339 times of tables that are free near the one that is not, the nearest first. */
  alternatives: string[];
}>;

const gridMs = 30 * 60_000;
const steps = 3;

function createAvailability(dining: TableConnector): Availability {
  return async (slot, call) => {
    const why = whyNotOffered(dining.merchants(call), slot);
    if (why !== undefined) throw new Problem('not_found', why);
    const [available = false] = await dining.areFree([slot], call);
    if (available) return { available, alternatives: [] };
    const others = neighbours(slot.startAt, wallMs()).map((startAt) => ({ ...slot, startAt }));
    const free = others.length === 0 ? [] : await dining.areFree(others, call);
    return { available, alternatives: others.filter((_, i) => free[i]).map(({ startAt }) => startAt) };
  };
}

function neighbours(startAt: string, now: number): string[] {
  const wanted = Date.parse(startAt);
  const first = Math.ceil(wanted / gridMs - steps) * gridMs;
  return Array.from({ length: 2 * steps + 1 }, (_, i) => first + i * gridMs)
    .filter((time) => time !== wanted && time > now && Math.abs(time - wanted) <= steps * gridMs)
    .sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted) || a - b)
    .map((time) => new Date(time).toISOString());
}

/** Builds answers as they leave the service, so that the job can store what the request would have got. */
export interface Answers {
  made(view: ReservationView): StoredAnswer;
  refused(problem: Problem, requestId: string): StoredAnswer;
  cancelled(): StoredAnswer;
}

export interface NewReservation {
  order: ReservationOrder;
  /** JSON text of an object. */
  details: string | undefined;
}

export interface ReservationsOptions extends Omit<Systems, 'isOthersTable'> {
  dining: TableConnector;
  database: Database;
  log: Log;
  metrics: DriverOptions['metrics'];
  answers: Answers;
}

export type Reservations = ReturnType<typeof createReservations>;

export function createReservations(options: ReservationsOptions) {
  const { database, dining, answers, log } = options;
  const plans = new PlansTable(database);
  const driver = createDriver({
    ...options,
    plans,
    systems: { ...options, isOthersTable: (reference, id) => plans.isOthersTable(reference, id) },
    answer: (plan, outcome) => answerTo(answers, plan, outcome),
  });

  // Whether the caller may see the plan was checked when it was found: from then on the service itself works on it, in the
  // name of the consumer that made it. Every step ends with the lease.
  const drive = (plan: TakenPlan, call: Call, started: { fresh?: boolean } = {}) => {
    const deadline = Math.min(call.deadline, plan.deadline);
    return withChanges(call, { visible: everything, ...plan.creator, deadline }, (own) =>
      driver.drive(plan, own, started),
    );
  };

  async function driveOn(plan: TakenPlan): Promise<void> {
    try {
      await drive(plan, { ...startCall(randomUUID()), isWrite: true });
    } catch (error) {
      if (error instanceof StillPending) return;
      const facts = { err: error, reservation_id: plan.id, state: plan.state };
      log.warn(facts, "couldn't finish a reservation; will try again later");
    }
  }

  return {
    partner: dining.name,
    /**
     * Makes both parts or none, and completes the claim. Throws what may pass (the job goes on with it then, unless
     * nothing was made), `idempotency_in_progress` where another request drives it, `store_unavailable`.
     */
    async create(wanted: NewReservation, claim: Claim, call: Call): Promise<ExecutedAnswer> {
      if (!claim.continued) requireOffered(dining.merchants(call), wanted.order.table);
      const begun = await plans.begin({
        ...wanted,
        id: claim.externalId,
        partner: dining.name,
        tableToken: randomUUID(),
        request: requestOf(claim, call),
        creator: call,
      });
      if (!begun) throw inProgress();
      return stored(await drive(begun.plan, call, { fresh: begun.fresh }));
    },
    /**
     * Cancels both parts, as `create` makes them. `seen`: its last change that the caller knows of. Throws `not_found`,
     * `conflict`, and `precondition_failed` where it has changed since.
     */
    async cancel(id: string, claim: Claim, call: Call, seen?: Date): Promise<ExecutedAnswer> {
      const plan = await plans.beginCancel(id, requestOf(claim, call), visibleTo(call), seen);
      if (plan) return stored(await drive(plan, call));
      return whyNotCancelled(await plans.find(id, visibleTo(call)), claim, answers, seen);
    },
    /** The reservation, joined with how its parts stand now; undefined where there is none. Throws `store_unavailable`. */
    async read(id: string, call: Call): Promise<ReservationView | undefined> {
      const plan = await plans.find(id, visibleTo(call));
      if (!plan || plan.state === 'refused') return undefined;
      return viewOfReservation(plan, await readParts(options, plan, call));
    },
    /** Newest first, with their parts as they were known last. Throws `store_unavailable`. */
    list: async (query: PlanQuery, call: Call) => (await plans.list(query, visibleTo(call))).map(viewAsKnown),
    /** Whether the table is free, and which others are. Throws what the partner's failures are for callers. */
    availability: createAvailability(dining),
    merchants: (call: Call): readonly Merchant[] => dining.merchants(call),
    /** Whether a reservation needs the CRM booking with this id. Throws `store_unavailable`. */
    holds: (bookingId: string, call: Call) => plans.holds(bookingId, visibleTo(call)),
    /**
     * Throws `idempotency_in_progress` while a plan owes the claim with this External ID an answer, and `store_unavailable`.
     */
    requireAnswered: (externalId: string) => requireAnswered(plans, externalId),
    /**
     * Takes one plan that nobody drives and that is due; what is returned drives it on, and never throws. Undefined where
     * there is none.
     */
    async takeDue(): Promise<(() => Promise<void>) | undefined> {
      const plan = await plans.takeDue();
      return plan && (() => driveOn(plan));
    },
  };
}

function viewAsKnown(plan: ListedPlan): ReservationView {
  return viewOfReservation(plan, knownParts(plan));
}

function visibleTo(call: Call): Visible {
  return call.visible(booking.collection);
}

/** The claim is completed already; undefined: another driver has taken the plan. */
function stored(answer: StoredAnswer | undefined): ExecutedAnswer {
  if (!answer) throw inProgress();
  return { ...answer, isStored: true };
}

async function requireAnswered(plans: PlansTable, externalId: string): Promise<undefined> {
  if (await plans.owes(externalId)) throw inProgress();
}

function requestOf({ consumerId, key, externalId }: Claim, { requestId }: Call) {
  return { consumerId, key, externalId, requestId };
}

function whyNotCancelled(
  plan: Plan | undefined,
  claim: Claim,
  answers: Answers,
  seen: Date | undefined,
): ExecutedAnswer {
  if (!plan || plan.state === 'refused')
    throw new Problem('not_found', "There's no reservation with this id.");
  requireUnchanged(plan, seen);
  if (plan.state === 'cancelled') return answers.cancelled();
  if (plan.state === 'failed')
    throw new Problem('conflict', 'The partner declined the reservation; there is nothing to cancel.');
  if (plan.request?.key === claim.key && plan.request.consumerId === claim.consumerId) throw inProgress();
  const isCancelled = plan.state === 'cancelling_table' || plan.state === 'writing_cancellation';
  const doing = isCancelled ? 'cancelled' : 'made or undone';
  throw new Problem(
    'conflict',
    `The reservation is being ${doing}. Read it, and try again later with a new key.`,
  );
}

function requireUnchanged({ updatedAt }: Plan, seen: Date | undefined): void {
  if (seen && updatedAt.getTime() !== seen.getTime()) throw hasChanged();
}

function answerTo(answers: Answers, plan: Plan, outcome: RequestOutcome): StoredAnswer {
  if (outcome === 'made') return answers.made(viewAsKnown(plan));
  if (outcome === 'cancelled') return answers.cancelled();
  return answers.refused(problemOfRefusal(plan, outcome), plan.request?.requestId ?? '');
}

function problemOfRefusal({ refusal, attention }: Plan, outcome: 'refused' | 'not_cancelled'): Problem {
  if (outcome === 'not_cancelled' && attention !== undefined) {
    return new Problem(
      'crm_rejected',
      'The table is cancelled, but the CRM refused to cancel its booking. Ask the operator to check it.',
    );
  }
  const { code = 'partner_rejected', detail = 'The partner refused.', ...facts } = refusal ?? {};
  const rest =
    attention === undefined
      ? ''
      : " Its booking in the CRM couldn't be deleted; ask the operator to check it.";
  return new Problem(code, detail + rest, facts);
}

/** Plans that the job drives at the same time: one that hangs must not hold up the others. */
const drivenAtOnce = 8;

/**
 * Starts the job that finishes what requests have left: killed, given up, or waiting for the partner. `stop` waits for
 * the plans under way.
 */
export function startRecovery(
  reservations: Pick<Reservations, 'takeDue'>,
  log: Log,
): { stop(): Promise<void> } {
  const underWay = new Set<Promise<void>>();

  async function takeAllDue(stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted && underWay.size < drivenAtOnce) {
      const drive = await reservations.takeDue();
      if (!drive) return;
      const driving = drive().finally(() => {
        underWay.delete(driving);
        // More may be due than could be taken.
        polling.wake();
      });
      underWay.add(driving);
    }
  }

  const polling = startPolling({ what: 'unfinished reservations', check: takeAllDue, log });
  return {
    async stop() {
      await polling.stop();
      await Promise.all(underWay);
    },
  };
}
