import type { Booking, Status } from '../restaurant/booking.ts';
import type { Slot } from '../restaurant/calendar.ts';
import type { Quirk } from '../restaurant/settings.ts';

/** A message as it goes out: snake_case names; `bigint` where the protocol has int64. */
export type Outgoing = { [name: string]: OutgoingValue };
type OutgoingValue = string | number | boolean | bigint | undefined | Outgoing | Outgoing[];

/**
 * JSON of a message as the Java skeleton prints it: int64 as strings, and no default values (false, 0, empty texts and
 * lists, enums of value 0). Quirks change that.
 */
export function writeMessage(message: Outgoing, quirks: readonly Quirk[]): string {
  return JSON.stringify(message, function (this: unknown, name, value: unknown) {
    if (typeof value === 'bigint') return quirks.includes('numbers') ? Number(value) : String(value);
    if (name !== '' && isDefault(value) && !quirks.includes('printsDefaults')) return undefined;
    return quirks.includes('camelCase') && isObject(value) ? renamed(value) : value;
  });
}

function isDefault(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value === false || value === 0 || value === '' || /_UNSPECIFIED$/.test(String(value));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function renamed(value: object): object {
  const entries = Object.entries(value).map(([name, each]) => [
    name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase()),
    each,
  ]);
  return Object.fromEntries(entries) as object;
}

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
