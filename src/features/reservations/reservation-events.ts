import type { EventType, NewEvent } from '../events/event-log.ts';
import { isResting, type Plan } from './plan.ts';
import { type PartStates, viewOfReservation } from './view.ts';

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

export function knownParts(plan: Plan): PartStates {
  const { state, stateBefore = 'pending', table } = plan;
  // The booking of a failed one was deleted; of one that is stuck it has not changed yet.
  const booking = state === 'failed' ? undefined : isResting(plan) ? state : stateBefore;
  return { booking, table: table?.status };
}
