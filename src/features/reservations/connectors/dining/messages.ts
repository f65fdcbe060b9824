import { isObject } from '../../../../platform/base/json-text.ts';
import type { ConnectorPart, PartStatus, TableOrder, TableSlot } from '../connector.ts';

/*
 * The messages of the Actions Center "Booking server API v3", by its public interface definition `api_v3.proto` and
 * the samples of its documentation. Sent strictly: snake_case, int64 as strings, no field that a partner need not know,
 * since some parse strictly. Read tolerantly: partners print int64 as numbers, names in lowerCamelCase, omit default values,
 * and have statuses and causes of their own.
 */

/** Body of CreateBooking; the same bytes for the same order and token. */
export function createRequest(order: TableOrder, token: string): string {
  const { guest, note } = order;
  return JSON.stringify({
    idempotency_token: token,
    slot: {
      merchant_id: order.merchantId,
      service_id: order.serviceId,
      start_sec: String(startSec(order)),
      duration_sec: String(durationSec(order)),
      resources: { party_size: order.partySize },
    },
    user_information: {
      user_id: order.memberId,
      given_name: guest.givenName,
      family_name: guest.familyName,
      telephone: guest.phone,
      email: guest.email,
    },
    payment_information: { prepayment_status: 'PREPAYMENT_NOT_PROVIDED' },
    additional_request: note,
  });
}

export function availabilityRequest(slots: readonly TableSlot[]): string {
  return JSON.stringify({ merchant_id: slots[0]?.merchantId, slot_time: slots.map(slotTime) });
}

function slotTime(slot: TableSlot): object {
  return {
    service_id: slot.serviceId,
    start_sec: String(startSec(slot)),
    duration_sec: String(durationSec(slot)),
    resource_ids: { party_size: slot.partySize },
  };
}

export function cancelRequest(reference: string): string {
  return JSON.stringify({ booking: { booking_id: reference, status: 'CANCELED' } });
}

export function statusRequest(reference: string): string {
  return JSON.stringify({ booking_id: reference });
}

export function listRequest(memberId: string): string {
  return JSON.stringify({ user_id: memberId });
}

function startSec({ startAt }: TableSlot): number {
  return Math.floor(Date.parse(startAt) / 1000);
}

function durationSec({ durationMinutes }: TableSlot): number {
  return durationMinutes * 60;
}

/** Whether the partner reports the slot as free; undefined where unclear. Entries are matched by the slot that they echo. */
export function availabilityOf(answer: unknown, slot: TableSlot): boolean | undefined {
  const entries = listOf(answer, 'slot_time_availability').filter((entry) => {
    const time = fieldOf(entry, 'slot_time');
    return (
      integer(time, 'start_sec') === startSec(slot) &&
      isEqualOrAbsent(text(time, 'service_id'), slot.serviceId) &&
      isEqualOrAbsent(integer(time, 'duration_sec'), durationSec(slot)) &&
      isEqualOrAbsent(integer(fieldOf(time, 'resource_ids'), 'party_size'), slot.partySize)
    );
  });
  return entries.length === 0 ? undefined : entries.some((entry) => fieldOf(entry, 'available') === true);
}

export type BookingReply = { cause: string; description: string | undefined } | { booking: BookingMessage };

export interface BookingMessage {
  id: string;
  /** The partner's word; undefined where it gives none. */
  status: string | undefined;
  merchantId: string | undefined;
  serviceId: string | undefined;
  /** UTC epoch seconds. */
  startSec: number | undefined;
  partySize: number | undefined;
}

/** Undefined where there is neither a failure nor a booking. */
export function readReply(answer: unknown): BookingReply | undefined {
  const failure = fieldOf(answer, 'booking_failure');
  if (isObject(failure)) {
    return { cause: causeOf(failure), description: text(failure, 'description')?.slice(0, 200) };
  }
  const booking = readBooking(fieldOf(answer, 'booking'));
  return booking && { booking };
}

/** The partner's own word, if it is one; partners omit default values. */
function causeOf(failure: unknown): string {
  const cause = text(failure, 'cause') ?? '';
  return /^[A-Za-z0-9_.-]{1,100}$/.test(cause) ? cause : 'CAUSE_UNSPECIFIED';
}

/** The bookings of ListBookings; undefined where the answer is none. An empty list may be left out. */
export function readList(answer: unknown): BookingMessage[] | undefined {
  if (!isObject(answer)) return undefined;
  return listOf(answer, 'bookings').flatMap((each) => readBooking(each) ?? []);
}

/** The status of GetBookingStatus; undefined where the answer is about another booking, or has none. */
export function readStatus(answer: unknown, reference: string): string | undefined {
  if (!isEqualOrAbsent(text(answer, 'booking_id'), reference)) return undefined;
  return text(answer, 'booking_status');
}

function readBooking(value: unknown): BookingMessage | undefined {
  const id = text(value, 'booking_id');
  if (id === undefined || id === '') return undefined;
  const slot = fieldOf(value, 'slot');
  return {
    id,
    status: text(value, 'status'),
    merchantId: text(slot, 'merchant_id'),
    serviceId: text(slot, 'service_id'),
    startSec: integer(slot, 'start_sec'),
    partySize: integer(fieldOf(slot, 'resources'), 'party_size'),
  };
}

/** Whether the booking is a table as the order asks for; what the partner omits counts as equal. */
export function isLike(booking: BookingMessage, order: TableOrder): boolean {
  return (
    booking.startSec === startSec(order) &&
    isEqualOrAbsent(booking.merchantId, order.merchantId) &&
    isEqualOrAbsent(booking.serviceId, order.serviceId) &&
    isEqualOrAbsent(booking.partySize, order.partySize)
  );
}

const statuses: Record<string, PartStatus> = {
  CONFIRMED: 'confirmed',
  NO_SHOW: 'confirmed',
  NO_SHOW_PENALIZED: 'confirmed',
  PENDING_MERCHANT_CONFIRMATION: 'pending',
  CANCELED: 'cancelled',
  FAILED: 'failed',
  DECLINED_BY_MERCHANT: 'failed',
};

/** Undefined for a word that the protocol does not have. */
export function partStatus(word: string | undefined): PartStatus | undefined {
  return word === undefined || !Object.hasOwn(statuses, word) ? undefined : statuses[word];
}

export interface DiningPart extends ConnectorPart {
  /** RFC 3339 UTC; undefined where the partner gives the status alone. */
  startAt: string | undefined;
  partySize: number | undefined;
}

export function toPart(booking: BookingMessage, status: PartStatus): DiningPart {
  const { startSec: start, partySize } = booking;
  const startAt = start === undefined ? undefined : new Date(start * 1000).toISOString();
  return { reference: booking.id, status, startAt, partySize };
}

function isEqualOrAbsent<T>(value: T | undefined, wanted: T): boolean {
  return value === undefined || value === wanted;
}

function fieldOf(value: unknown, name: string): unknown {
  if (!isObject(value)) return undefined;
  return value[name] ?? value[name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase())];
}

function text(value: unknown, name: string): string | undefined {
  const found = fieldOf(value, name);
  return typeof found === 'string' ? found : undefined;
}

function listOf(value: unknown, name: string): unknown[] {
  const found = fieldOf(value, name);
  return Array.isArray(found) ? found : [];
}

/** An int64 as string or number; undefined for anything that can't be a date or a number of guests. */
function integer(value: unknown, name: string): number | undefined {
  const found = fieldOf(value, name);
  const number = typeof found === 'string' && /^\d{1,15}$/.test(found) ? Number(found) : found;
  return Number.isSafeInteger(number) && Math.abs(number as number) <= 8_640_000_000_000
    ? (number as number)
    : undefined;
}
