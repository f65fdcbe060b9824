import {
  type Call,
  everything,
  isFieldVisible,
  type VisibleFields,
  withChanges,
} from '../../platform/base/call.ts';
import { now } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { viewOfCreator } from '../../records/created-by.ts';
import { booking as bookingResource } from '../../records/quotes-and-bookings.ts';
import { shownNames } from '../../records/shown-fields.ts';
import type { EventType, NewEvent } from '../events/event-log.ts';
import { bookingOrder } from './booking-order.ts';
import type { PartStatus } from './connectors/connector.ts';
import { isResting, type ListedPlan, type Plan, type ReservationStatus } from './plan.ts';
import type { Systems } from './steps.ts';

export type ReservationView = ReturnType<typeof viewOfReservation>;

/** How both parts stand; undefined where there is none. */
export interface PartStates {
  booking: string | null | undefined;
  table: PartStatus | 'unknown' | undefined;
}

/**
 * Joins what is stored with how the parts stand: null where there is none, `unknown` where its system can't be asked.
 */
export function viewOfReservation(plan: ListedPlan, parts: PartStates) {
  const { order, table } = plan;
  return {
    id: plan.id,
    status: statusOf(plan, parts),
    trip_id: order.tripId,
    member_id: order.table.memberId,
    name: order.name,
    booking: { id: plan.id, status: parts.booking ?? null },
    dining: {
      partner: plan.partner,
      booking_id: table?.reference ?? null,
      status: parts.table ?? null,
      start_at: order.table.startAt,
      time_zone: order.table.timeZone,
      party_size: order.table.partySize,
    },
    created_by: viewOfCreator(plan.creator),
    created_at: plan.createdAt.toISOString(),
    updated_at: plan.updatedAt.toISOString(),
    ...(plan.erasedAt && { erased_at: plan.erasedAt.toISOString() }),
  };
}

/**
 * The reservation for a caller whose permission on bookings names fields: what a booking has under the same name is shown as
 * there, the booking's status with `status`, and the table with `details`, which is where the booking has it.
 */
export function viewOfVisibleFields<V extends Pick<ReservationView, 'booking' | 'dining'>>(
  view: V,
  visible: VisibleFields,
): Partial<V> {
  if (visible === undefined) return view;
  const { booking: part, dining, ...rest } = view;
  const sees = (name: string) => isFieldVisible(visible, name);
  const isShown = ([name]: [string, unknown]) => !namesOfBooking.includes(name) || sees(name);
  const { partner: _, ...table } = dining;
  return {
    ...(Object.fromEntries(Object.entries(rest).filter(isShown)) as Partial<V>),
    booking: { id: part.id, ...(sees('status') && { status: part.status }) },
    ...(sees('details') && { dining: sees('source') ? dining : table }),
  };
}

const namesOfBooking = shownNames(bookingResource);

/** Confirmed means that both parts are there: where one is known to be gone, a person has to check it. */
function statusOf({ state, status }: ListedPlan, { booking, table }: PartStates): ReservationStatus {
  if (state !== 'confirmed') return status;
  const isWhole = booking !== undefined && (table === 'confirmed' || table === 'unknown');
  return isWhole ? status : 'needs_attention';
}

const readMs = 5000;

/** How the parts stand now; both systems are asked at the same time. A part whose system can't be asked is unknown. */
export async function readParts(
  { crm, dining }: Pick<Systems, 'crm' | 'dining'>,
  plan: Plan,
  call: Call,
): Promise<PartStates> {
  const { order, table } = plan;
  // A caller that may see the reservation may see its parts.
  const changes = { deadline: Math.min(call.deadline, now() + readMs), visible: everything };
  const [bookingPart, tablePart] = await withChanges(call, changes, (bounded) =>
    Promise.all([
      crm.retrieve(plan.id, bookingOrder(plan, 'confirmed'), bounded).catch(unknownPart),
      table && dining.retrieve(table.reference, order.table, bounded).catch(unknownPart),
    ]),
  );
  return {
    booking: bookingPart === 'unknown' ? bookingPart : bookingPart?.crmStatus,
    table: tablePart === 'unknown' ? tablePart : tablePart?.status,
  };
}

function unknownPart(error: unknown): 'unknown' {
  if (error instanceof Problem) return 'unknown';
  throw error;
}

const types: Partial<Record<Plan['status'], EventType>> = {
  confirmed: 'reservation.confirmed',
  cancelled: 'reservation.cancelled',
  failed: 'reservation.failed',
  needs_attention: 'reservation.needs_attention',
};

export function eventOf(moved: Plan, from: Plan): NewEvent | undefined {
  const { id, status, state, updatedAt } = moved;
  const type = types[status];
  // A refused reservation never came to be; a refused cancellation leaves it as it was.
  if (type === undefined || state === 'refused') return undefined;
  if (from.state === 'cancelling_table' && status === 'confirmed') return undefined;
  return {
    type,
    resource: { type: 'reservation', id },
    occurredAt: updatedAt.toISOString(),
    data: JSON.stringify(viewOfReservation(moved, knownParts(moved))),
    permission: 'bookings',
    consumerId: moved.creator.consumerId,
    // Its type says the status.
    changed: ['status'],
  };
}

export function knownParts(plan: ListedPlan): PartStates {
  const { state, stateBefore = 'pending', table } = plan;
  // The booking of a failed one was deleted; of one that is stuck it has not changed yet.
  const booking = state === 'failed' ? undefined : isResting(plan) ? state : stateBefore;
  return { booking, table: table?.status };
}
