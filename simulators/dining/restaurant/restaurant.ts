import { createHash } from 'node:crypto';
import { ProtocolError } from '../protocol/protocol-error.ts';
import type { Message } from '../protocol/read-message.ts';
import type { Method } from '../protocol/shapes.ts';
import type { Outgoing } from '../protocol/write-message.ts';
import { checkUser, hasSeats } from './availability.ts';
import { type Booking, isStanding } from './booking.ts';
import { bookingMessage } from './booking-message.ts';
import type { Books } from './books.ts';
import { checkSlot, type Slot } from './calendar.ts';
import { Failure, fail } from './failures.ts';
import type { Settings } from './settings.ts';

/** Answers a call that was read. `raw` is the body's bytes. @throws ProtocolError, Failure */
type Work = (request: Message, raw: Buffer) => Outgoing;

/** What the protocol's messages are once `readMessage` has read them by their shapes. */
interface SlotMessage extends Message {
  merchant_id: string;
  service_id: string;
  start_sec: number;
  duration_sec: number;
  resources: { party_size: number };
}

/** The methods of the partner, over its books. All work is synchronous: calls run one after the other. */
export function createRestaurant(books: Books, settings: Settings): Record<Method, Work> {
  const parts = { books, settings };
  return {
    HealthCheck: () => ({ status: 'SERVING' }),
    BatchAvailabilityLookup: (request) => lookUp(parts, request),
    CreateBooking: (request, raw) => create(parts, request, raw),
    UpdateBooking: ({ booking }) => update(parts, booking as Message & { booking_id: string }),
    GetBookingStatus: ({ booking_id }) => status(parts, booking_id as string),
    ListBookings: ({ user_id }) => list(parts, user_id as string),
  };
}

interface Parts {
  books: Books;
  settings: Settings;
}

/** What a look-up leaves out. */
const usual = { durationSec: 5400, partySize: 2 };

function lookUp({ books, settings }: Parts, request: Message): Outgoing {
  const times = request['slot_time'] as Message[];
  return {
    slot_time_availability: times.map((time) => {
      const slot: Slot = {
        merchantId: request['merchant_id'] as string,
        serviceId: time['service_id'] as string,
        startSec: time['start_sec'] as number,
        durationSec: (time['duration_sec'] as number | undefined) ?? usual.durationSec,
        partySize: partySizeOf(time['resource_ids'] ?? { party_size: usual.partySize }),
      };
      checkSlot(slot);
      return { slot_time: echoed(time, settings), available: hasSeats(books, settings, slot) };
    }),
  };
}

function partySizeOf(resources: unknown): number {
  return Number((resources as Message | undefined)?.['party_size'] ?? 0);
}

/** The slot as it was asked for. */
function echoed(time: Message, { quirks }: Settings): Outgoing {
  const shift = quirks.includes('echoesOtherStart') ? 1800 : 0;
  return {
    ...(time as Outgoing),
    start_sec: BigInt((time['start_sec'] as number) + shift),
    ...(time['duration_sec'] === undefined ? {} : { duration_sec: BigInt(time['duration_sec'] as number) }),
  };
}

function slotOf(message: SlotMessage): Slot {
  return {
    merchantId: message.merchant_id,
    serviceId: message.service_id,
    startSec: message.start_sec,
    durationSec: message.duration_sec,
    partySize: partySizeOf(message.resources),
  };
}

function create({ books, settings }: Parts, request: Message, raw: Buffer): Outgoing {
  const { quirks } = settings;
  const token = request['idempotency_token'] as string;
  const fingerprint = createHash('sha256').update(raw).digest('base64url');
  const sealed = quirks.includes('forgetsTokens') ? undefined : books.byToken(token);
  if (sealed) {
    if (sealed.fingerprint === fingerprint) return { booking: bookingMessage(sealed.booking, quirks) };
    fail('CAUSE_UNSPECIFIED', 'the idempotency token was used for another request');
  }
  const user = request['user_information'] as Booking['user'];
  const slot = slotOf(request['slot'] as SlotMessage);
  checkSlot(slot);
  checkGuest(user);
  if (request['lease_ref'] !== undefined) fail('LEASE_EXPIRED', 'there is no such lease');
  if (request['offer_id'] !== undefined) fail('OFFER_UNAVAILABLE', 'there is no such offer');
  checkUser(books, settings, user.user_id, slot);
  if (!hasSeats(books, settings, slot)) fail('SLOT_UNAVAILABLE', 'no table is free');
  const booking: Booking = {
    id: books.nextId(),
    slot,
    status: settings.asynchronous ? 'PENDING_MERCHANT_CONFIRMATION' : 'CONFIRMED',
    user,
    prepaymentStatus: prepaymentOf(request['payment_information'] as Message | undefined),
    token,
    fingerprint,
    createdAt: new Date().toISOString(),
    ...(request['additional_request'] === undefined
      ? {}
      : { additionalRequest: request['additional_request'] as string }),
  };
  books.write(booking);
  return { booking: bookingMessage(booking, quirks) };
}

/** Names of 40 characters at most, and a telephone number in ITU-T E.123. */
function checkGuest(user: Booking['user']): void {
  const names = [user['given_name'], user['family_name']] as string[];
  if (names.some((name) => name === '' || name.length > 40)) fail('UNSUPPORTED_NAME', 'the name is too long');
  if (!/^\+[0-9][0-9 ()-]{4,30}$/.test(user['telephone'] as string)) {
    fail('UNSUPPORTED_PHONE_NUMBER', 'the telephone number is not international');
  }
}

function prepaymentOf(payment: Message | undefined): string {
  return (payment?.['prepayment_status'] as string | undefined) ?? 'PREPAYMENT_STATUS_UNSPECIFIED';
}

function find({ books, settings }: Parts, id: string): Booking {
  const booking = books.get(id);
  if (booking !== undefined) return booking;
  if (settings.quirks.includes('unknownBookingAs200'))
    throw new Failure('BOOKING_NOT_FOUND', 'no such booking');
  throw new ProtocolError(404, 'unknown booking_id');
}

function update(parts: Parts, change: Message & { booking_id: string }): Outgoing {
  const { books, settings } = parts;
  const booking = find(parts, change.booking_id);
  const wanted = change['status'];
  if (wanted !== undefined && wanted !== 'CANCELED') {
    throw new ProtocolError(400, 'status can only be changed to CANCELED');
  }
  const changed = wanted === 'CANCELED' ? cancel(booking, settings) : modify(parts, booking, change);
  if (changed.id === booking.id) books.write(changed);
  else books.rename(booking.id, changed);
  return { booking: updatedMessage(changed, settings) };
}

function updatedMessage(booking: Booking, { quirks }: Settings): Outgoing {
  if (quirks.includes('slotlessCancel') && booking.status === 'CANCELED') return { booking_id: booking.id };
  if (quirks.includes('minimalUpdate')) return { booking_id: booking.id, status: booking.status };
  return bookingMessage(booking, quirks);
}

function cancel(booking: Booking, settings: Settings): Booking {
  if (booking.status === 'CANCELED') fail('BOOKING_ALREADY_CANCELLED', 'it was cancelled before');
  if (!isStanding(booking)) fail('BOOKING_NOT_CANCELLABLE', `it is ${booking.status}`);
  checkWindow(booking, settings);
  return { ...booking, status: 'CANCELED' };
}

function checkWindow({ slot }: Booking, { cancellationMinutes }: Settings): void {
  const latestMs = (slot.startSec - cancellationMinutes * 60) * 1000;
  if (Date.now() > latestMs) fail('OUTSIDE_CANCELLATION_WINDOW', 'it is too late');
}

/** Another time, another party, or both. A booking that waits for the merchant can't be changed. */
function modify({ books, settings }: Parts, booking: Booking, change: Message): Booking {
  if (booking.status === 'CANCELED') fail('BOOKING_ALREADY_CANCELLED', 'it was cancelled before');
  if (booking.status !== 'CONFIRMED') fail('CAUSE_UNSPECIFIED', `it is ${booking.status}`);
  checkWindow(booking, settings);
  const slot = changedSlot(booking.slot, (change['slot'] ?? {}) as Partial<SlotMessage>);
  checkSlot(slot);
  if (!hasSeats(books, settings, slot, booking)) fail('SLOT_UNAVAILABLE', 'no table is free');
  return {
    ...booking,
    slot,
    id: settings.quirks.includes('newIdOnReschedule') ? books.nextId() : booking.id,
  };
}

function changedSlot(slot: Slot, wanted: Partial<SlotMessage>): Slot {
  const { start_sec: startSec, duration_sec: durationSec, resources } = wanted;
  if ((startSec === undefined) !== (durationSec === undefined)) {
    throw new ProtocolError(400, 'start_sec and duration_sec are changed together');
  }
  const time = startSec === undefined || durationSec === undefined ? {} : { startSec, durationSec };
  const party = resources === undefined ? {} : { partySize: partySizeOf(resources) };
  return { ...slot, ...time, ...party };
}

function status(parts: Parts, id: string): Outgoing {
  const booking = find(parts, id);
  const withPayment = !parts.settings.quirks.includes('withoutPrepaymentStatus');
  return {
    booking_id: booking.id,
    booking_status: booking.status,
    prepayment_status: withPayment ? booking.prepaymentStatus : undefined,
  };
}

function list({ books, settings }: Parts, userId: string): Outgoing {
  return { bookings: books.ofUser(userId).map((booking) => bookingMessage(booking, settings.quirks)) };
}
