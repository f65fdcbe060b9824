import type { Call } from '../../../../platform/base/call.ts';
import type { PartStatus, TableOrder } from '../connector.ts';
import { type BookingServer, methods } from './booking-server.ts';
import {
  type BookingMessage,
  type DiningPart,
  listRequest,
  partStatus,
  readList,
  readStatus,
  statusRequest,
  toPart,
} from './messages.ts';
import { PartnerFailure } from './partner-failure.ts';

/**
 * GetBookingStatus is not mandatory: where the partner does not have it, or does not know the booking, the list of the
 * member's bookings is read. Some partners answer the same for an unknown booking and an unknown method, so one answer
 * alone does not prove that the table is gone. Throws `PartnerFailure`.
 */
export async function retrieve(
  server: BookingServer,
  reference: string,
  order: TableOrder,
  call: Call,
): Promise<DiningPart | undefined> {
  const status = await statusOf(server, reference, call);
  if (status) return { reference, status, startAt: undefined, partySize: undefined };
  return findInList(server, reference, order, call);
}

/** Undefined where GetBookingStatus does not have it. Throws `PartnerFailure`. */
async function statusOf(
  server: BookingServer,
  reference: string,
  call: Call,
): Promise<PartStatus | undefined> {
  try {
    const { body } = await server.sendWithRetries(methods.status, statusRequest(reference), call);
    return partStatus(readStatus(body, reference));
  } catch (error) {
    const kind = error instanceof PartnerFailure ? error.kind : undefined;
    if (kind === 'absent' || kind === 'missing' || kind === 'invalid') return undefined;
    throw error;
  }
}

async function findInList(
  server: BookingServer,
  reference: string,
  order: TableOrder,
  call: Call,
): Promise<DiningPart | undefined> {
  const bookings = await bookingsOf(server, order.memberId, call);
  if (bookings === undefined) {
    throw new PartnerFailure('absent', 'the partner gives neither the status nor the bookings of a user');
  }
  const booking = bookings.find(({ id }) => id === reference);
  if (booking === undefined) return undefined;
  const status = partStatus(booking.status);
  if (status === undefined) throw new PartnerFailure('broken', 'the booking has no status of the protocol');
  return toPart(booking, status);
}

/**
 * All bookings of a member; undefined where the partner has no ListBookings, which is not mandatory. Throws
 * `PartnerFailure`.
 */
export async function bookingsOf(
  server: BookingServer,
  memberId: string,
  call: Call,
): Promise<BookingMessage[] | undefined> {
  try {
    const { body } = await server.sendWithRetries(methods.list, listRequest(memberId), call);
    const bookings = readList(body);
    if (bookings === undefined) throw new PartnerFailure('broken', 'the answer is no list of bookings');
    return bookings;
  } catch (error) {
    // 404 as well: a partner without the method may not know the path.
    const isAbsent = error instanceof PartnerFailure && (error.kind === 'absent' || error.kind === 'missing');
    if (isAbsent) return undefined;
    throw error;
  }
}
