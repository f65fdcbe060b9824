import type { Quirk } from '../protocol/quirks.ts';
import type { Outgoing } from '../protocol/write-message.ts';
import type { Booking, Status } from './booking.ts';
import type { Slot } from './calendar.ts';

function slotMessage(slot: Slot, status: Status): Outgoing {
  return {
    merchant_id: slot.merchantId,
    service_id: slot.serviceId,
    start_sec: BigInt(slot.startSec),
    duration_sec: BigInt(slot.durationSec),
    resources: { party_size: slot.partySize },
    confirmation_mode:
      status === 'PENDING_MERCHANT_CONFIRMATION'
        ? 'CONFIRMATION_MODE_ASYNCHRONOUS'
        : 'CONFIRMATION_MODE_SYNCHRONOUS',
  };
}

/** A booking as the protocol shows it. */
export function bookingMessage(booking: Booking, quirks: readonly Quirk[]): Outgoing {
  const payment = quirks.includes('withoutPrepaymentStatus')
    ? undefined
    : { prepayment_status: booking.prepaymentStatus };
  return {
    booking_id: booking.id,
    slot: slotMessage(booking.slot, booking.status),
    user_information: booking.user as Outgoing,
    status: booking.status,
    payment_information: payment,
  };
}
