import type { PartStatus } from '../connectors/connector.ts';
import type { Plan, ReservationStatus } from './plan.ts';

/** A reservation as consumers see it. */
export interface ReservationView {
  id: string;
  status: ReservationStatus;
  trip_id: string;
  member_id: string;
  name: string;
  /** `status` is what the CRM says, null where there is no booking, `unknown` where the CRM can't be asked. */
  booking: { id: string; status: string | null };
  /** Both null where there is no table; `unknown` where the partner can't be asked. */
  dining: {
    partner: string;
    booking_id: string | null;
    status: PartStatus | 'unknown' | null;
    start_at: string;
    party_size: number;
  };
  created_at: string;
  updated_at: string;
}

/** How both parts stand; undefined where there is none. */
export interface Parts {
  booking: string | null | undefined;
  table: PartStatus | 'unknown' | undefined;
}

/** Joins what is stored with how the parts stand. */
export function viewOf(plan: Plan, parts: Parts): ReservationView {
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
      party_size: order.table.partySize,
    },
    created_at: plan.createdAt.toISOString(),
    updated_at: plan.updatedAt.toISOString(),
  };
}

/** Confirmed means that both parts are there: where one is known to be gone, somebody has to look at it. */
function statusOf({ state, status }: Plan, { booking, table }: Parts): ReservationStatus {
  if (state !== 'confirmed') return status;
  const isWhole = booking !== undefined && (table === 'confirmed' || table === 'unknown');
  return isWhole ? status : 'needs_attention';
}
