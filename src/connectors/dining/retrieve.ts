import type { Call } from '../../base/call.ts';
import type { Connector, PartStatus } from '../connector.ts';
import { type BookingServer, methods } from './booking-server.ts';
import { bookingsOf } from './bookings-of.ts';
import { partStatus, readStatus, statusRequest, toPart } from './messages.ts';
import type { DiningOrder, DiningPart } from './order.ts';
import { PartnerFailure, toProblem } from './partner-failure.ts';

type Retrieve = Connector<DiningOrder, DiningPart>['retrieve'];

/**
 * GetBookingStatus, which is not mandatory: where the partner does not have it, or does not know the booking, the
 * member's bookings tell. An unknown booking and an unknown method look the same to some partners, so one answer alone
 * is no proof that the table is gone.
 */
export function createRetrieve(server: BookingServer): Retrieve {
  return async (reference, order, call) => {
    try {
      const status = await statusOf(server, reference, call);
      if (status) return { reference, status, startAt: undefined, partySize: undefined };
      return await findInList(server, reference, order, call);
    } catch (error) {
      throw error instanceof PartnerFailure ? toProblem(error) : error;
    }
  };
}

/** Undefined where GetBookingStatus does not tell it. Throws `PartnerFailure`. */
export async function statusOf(
  server: BookingServer,
  reference: string,
  call: Call,
): Promise<PartStatus | undefined> {
  try {
    const { body } = await server.sendPatiently(methods.status, statusRequest(reference), call);
    return partStatus(readStatus(body, reference));
  } catch (error) {
    const says = error instanceof PartnerFailure ? error.kind : undefined;
    if (says === 'absent' || says === 'missing' || says === 'invalid') return undefined;
    throw error;
  }
}

async function findInList(
  server: BookingServer,
  reference: string,
  order: DiningOrder,
  call: Call,
): Promise<DiningPart | undefined> {
  const bookings = await bookingsOf(server, order.memberId, call);
  if (bookings === undefined) {
    throw new PartnerFailure('absent', 'the partner tells neither the status nor the bookings of a user');
  }
  const booking = bookings.find(({ id }) => id === reference);
  if (booking === undefined) return undefined;
  const status = partStatus(booking.status);
  if (status === undefined) throw new PartnerFailure('broken', 'the booking has no status of the protocol');
  return toPart(booking, status);
}
