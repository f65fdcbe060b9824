import type { Call } from '../../platform/base/call.ts';
import { type Fault, Problem } from '../../platform/base/problem.ts';
import type { Resources } from '../../records/mapping.ts';
import { lateSeconds, type Records } from '../../records/records.ts';
import { bookingOrder } from './booking-order.ts';
import type { Connector, CrmConnector, TableOrder } from './connectors/connector.ts';
import type { Plan, PlanState, Refusal } from './plan.ts';
import type { Move, RequestOutcome } from './plans-table.ts';

/*
 * A reservation is a plan, stored before the first call. One driver at a time moves it on: the request that made it,
 * a repeat of that request, or the job. It is in one of these states:
 *
 *                        refused, and nothing was made
 *     making_booking ────────────────────────────────────────────> refused
 *           │                                                        ^
 *           v            refused at the table                        │ before its answer
 *     booking_table ───────────────────────────────> undoing ────────┤
 *           │ the pivot                                 ^            │ after it
 *           v            it waits for the partner       │            v
 *     writing_outcome ──────────────────> pending ──────┘          failed
 *           │        ^                      │  the partner decided against
 *           │        └──────────────────────┘
 *           v          the partner decided for
 *       confirmed
 *
 *     pending, confirmed ── DELETE ──> cancelling_table ──> writing_cancellation ──> cancelled
 *                        <── refused ──┘
 *
 *   making_booking        the member is looked up; the CRM booking, status pending, may or may not exist yet.
 *   booking_table         the CRM booking exists; the partner may have been asked for the table.
 *   writing_outcome       the table exists, or waits for the partner; the CRM booking gets its status, until that is done.
 *   undoing               there is no table; the CRM booking is deleted.
 *   pending               both exist, the consumer has its answer, and the partner is asked now and then.
 *   confirmed             both exist and refer to each other.
 *   refused               the answer was a refusal, and nothing is left. Reads know no such reservation.
 *   failed                the partner decided against it after the consumer had its answer.
 *                         Both: the CRM booking is looked for once more when no call can make it any more.
 *   cancelling_table      the partner may have been asked to cancel. A refusal leads back to where it was.
 *   writing_cancellation  the table is cancelled; the CRM booking gets its status.
 *
 * A state is stored before the call that belongs to it is made, so the next owner repeats that call, with the same
 * token. Only a refusal leads back: a failure, a time-out and a lost answer leave the state, and the same call is made
 * again until it is known how it ended. Where the CRM refuses what must be written there (undoing, writing_outcome,
 * writing_cancellation), the plan keeps its state and is marked: it needs attention, and is tried again now and then.
 * The keyed request is answered, and its claim completed, in the transaction of the move that decides its outcome.
 */

export interface Systems {
  records: Records;
  resources: Pick<Resources, 'member' | 'booking'>;
  crm: CrmConnector;
  dining: Connector<TableOrder>;
  isOthersTable(reference: string, id: string): Promise<boolean>;
}

interface StepInput {
  plan: Plan;
  fresh: boolean;
  systems: Systems;
  call: Call;
}

/** Makes the call of one state and returns what follows. Throws what may pass: then the state stays. */
type Step = (input: StepInput) => Promise<Move>;

/** How long until the partner is asked again, or a call that the CRM has refused is repeated, in seconds. */
export const firstPoll = 5;
const attentionPause = 900;
/** By then no call can make the CRM booking any more. */
const lastLook = { again: lateSeconds, looksAgain: true } satisfies Partial<Move>;
const notDeleted = "There's no table, and the CRM booking can't be deleted";

const steps: Partial<Record<PlanState, Step>> = {
  async making_booking({ plan, fresh, systems, call }) {
    let mayBeMade = false;
    try {
      const { memberId } = plan.order.table;
      if (!(await systems.records.find(systems.resources.member, memberId, call)))
        throw new Problem('member_not_found', 'The CRM has no member with this id.');
      mayBeMade = true;
      // The token is the reference: what has it is ours.
      const attempt = { token: plan.id, repeated: !fresh, isOthers: async () => false };
      await systems.crm.create(bookingOrder(plan, 'pending'), attempt, call);
      return { state: 'booking_table' };
    } catch (error) {
      const refusal = refusalOf(error);
      // An earlier driver may have made the booking, when the member was still there.
      if (!fresh) return { state: 'undoing', refusal };
      // A call that was lost and repeated may make it yet.
      return { state: 'refused', refusal, outcome: 'refused', ...(mayBeMade && lastLook) };
    }
  },

  async booking_table({ plan, fresh, systems, call }) {
    try {
      const attempt = {
        token: plan.tableToken,
        repeated: !fresh,
        isOthers: (reference: string) => systems.isOthersTable(reference, plan.id),
      };
      const table = await systems.dining.create({ ...plan.order.table, note: plan.id }, attempt, call);
      const { reference, status } = table;
      if (status === 'confirmed' || status === 'pending') {
        return { state: 'writing_outcome', table: { reference, status } };
      }
      return { state: 'undoing', table: { reference, status }, refusal: declined() };
    } catch (error) {
      return { state: 'undoing', refusal: refusalOf(error) };
    }
  },

  async writing_outcome({ plan, systems, call }) {
    const status = plan.table?.status === 'pending' ? 'pending' : 'confirmed';
    const write = () => systems.crm.write(plan.id, bookingOrder(plan, status), { ifGone: 'make' }, call);
    const refused = await refusalAt(write);
    if (refused)
      return stuck(plan, 'made', "The table is booked, and the CRM booking can't be written", refused);
    return { state: status, outcome: 'made', again: firstPoll };
  },

  undoing: (input) =>
    deleteBooking(input, {
      state: input.plan.request ? 'refused' : 'failed',
      outcome: 'refused',
      ...lastLook,
    }),

  refused: lookAgain,
  failed: lookAgain,

  async pending({ plan, systems, call }) {
    const reference = plan.table?.reference ?? '';
    const status = (await systems.dining.retrieve(reference, plan.order.table, call))?.status ?? 'failed';
    if (status === 'pending') throw new StillPending();
    if (status === 'confirmed') return { state: 'writing_outcome', table: { reference, status } };
    return { state: 'undoing', table: { reference, status }, refusal: declined() };
  },

  async cancelling_table({ plan, systems, call }) {
    const { table } = plan;
    if (!table) return { state: 'writing_cancellation' };
    const refused = await refusalAt(() => systems.dining.cancel(table.reference, plan.order.table, call));
    if (refused === undefined) {
      return { state: 'writing_cancellation', table: { ...table, status: 'cancelled' } };
    }
    return {
      state: plan.stateBefore ?? 'confirmed',
      refusal: { ...refused, code: 'conflict' },
      outcome: 'not_cancelled',
      again: firstPoll,
    };
  },

  async writing_cancellation({ plan, systems, call }) {
    const write = () =>
      systems.crm.write(plan.id, bookingOrder(plan, 'cancelled'), { ifGone: 'leave' }, call);
    const refused = await refusalAt(write);
    if (refused) {
      const attention = "The table is cancelled, and the CRM booking can't be written";
      return stuck(plan, 'not_cancelled', attention, refused);
    }
    return { state: 'cancelled', outcome: 'cancelled' };
  },
};

function lookAgain(input: StepInput): Promise<Move> {
  return deleteBooking(input, { state: input.plan.state, again: 0 });
}

/** `done`: what follows once the CRM has no booking. */
async function deleteBooking({ plan, systems, call }: StepInput, done: Move): Promise<Move> {
  const refused = await refusalAt(() => systems.crm.cancel(plan.id, bookingOrder(plan, 'cancelled'), call));
  return refused ? stuck({ ...plan, state: 'undoing' }, 'refused', notDeleted, refused) : done;
}

export class StillPending extends Error {}

/** Makes the call that the plan's state stands for. Throws what may pass. */
export async function takeStep(input: StepInput): Promise<Move> {
  const step = steps[input.plan.state];
  if (!step) throw new Error(`nothing is to be done in the state ${input.plan.state}`);
  return step(input);
}

function stuck({ state }: Plan, outcome: RequestOutcome, attention: string, { detail }: Refusal): Move {
  return { state, attention: `${attention}: ${detail}`, outcome, again: attentionPause };
}

/** Why the system refused for good; undefined where it did not. Throws what may pass. */
async function refusalAt(work: () => Promise<void>): Promise<Refusal | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return refusalOf(error);
  }
}

/** A refusal that was thrown: final, and nothing was done. Throws all else on. */
export function refusalOf(error: unknown): Refusal {
  if (!(error instanceof Problem) || error.status >= 500 || error.facts.outcomeUnknown) throw error;
  const { partnerCause, errors } = error.facts;
  return {
    code: error.code,
    detail: error.message,
    ...(partnerCause !== undefined && { partnerCause }),
    ...(errors && { errors: errors.map(placed) }),
  };
}

const pointersInBody = ['#/trip_id', '#/member_id', '#/name', '#/details'];

function placed(fault: Fault): Fault {
  if (!('pointer' in fault) || pointersInBody.includes(fault.pointer)) return fault;
  return { ...fault, pointer: '' };
}

function declined(): Refusal {
  return { code: 'partner_rejected', detail: 'The partner declined the reservation.' };
}
