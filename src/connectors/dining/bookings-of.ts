import type { Call } from '../../base/call.ts';
import { type BookingServer, methods } from './booking-server.ts';
import { type BookingMessage, listRequest, readList } from './messages.ts';
import { PartnerFailure } from './partner-failure.ts';

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
    const { body } = await server.sendPatiently(methods.list, listRequest(memberId), call);
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
