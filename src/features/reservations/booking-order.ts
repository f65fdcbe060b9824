import { splitsAnywhere, type TextColumns } from '../../platform/base/text.ts';
import type { BookingOrder, PartStatus } from './connectors/connector.ts';
import type { Plan } from './plan.ts';

/** How long the partner's reference may be in the CRM booking's details, in UTF-16 code units. */
const longestReference = 1000;

/**
 * The reservation as the CRM's people see it: a booking whose details describe the table. Without details once they are
 * erased here: what the CRM has stays.
 */
export function bookingOrder(plan: PlanFacts & Pick<Plan, 'erasedAt'>, status: PartStatus): BookingOrder {
  const { order, partner } = plan;
  return {
    trip_id: order.tripId,
    member_id: order.table.memberId,
    name: order.name,
    source: partner,
    ...(!plan.erasedAt && { details: detailsText(plan) }),
    status,
  };
}

type PlanFacts = Pick<Plan, 'order' | 'details' | 'partner' | 'table'>;

/** Whether these columns can hold the booking's details, whatever the partner calls the table; how long they are at most. */
export function longestDetails(facts: Omit<PlanFacts, 'table'>, columns: TextColumns) {
  const text = detailsText({ ...facts, table: undefined });
  const fits = splitsAnywhere(text, longestReference, columns);
  return { length: text.length + longestReference, fits };
}

/** JSON text: what the consumer sent as details stands in it digit for digit. */
function detailsText({ order, details, partner, table }: PlanFacts): string {
  const { merchantId, serviceId, startAt, partySize, durationMinutes, guest } = order.table;
  const dining = JSON.stringify({
    partner,
    booking_id: table?.reference ?? null,
    status: table?.status ?? null,
    merchant_id: merchantId,
    service_id: serviceId,
    start_at: startAt,
    party_size: partySize,
    duration_minutes: durationMinutes,
    guest: {
      given_name: guest.givenName,
      family_name: guest.familyName,
      email: guest.email,
      phone: guest.phone,
    },
  });
  return details === undefined ? `{"dining":${dining}}` : `{"dining":${dining},"details":${details}}`;
}
