import type { Call } from '../../../../platform/base/call.ts';
import { Problem } from '../../../../platform/base/problem.ts';
import type { Log } from '../../../../platform/observability/log.ts';
import type { PartStatus, TableOrder } from '../connector.ts';
import { type BookingServer, methods, partner } from './booking-server.ts';
import { cancelRequest, partStatus, readReply } from './messages.ts';
import { PartnerFailure, throwOutcomeUnknown } from './partner-failure.ts';
import { retrieve } from './retrieve.ts';

interface Booked {
  reference: string;
  order: TableOrder;
}

const unknownBooking = ['BOOKING_NOT_FOUND'];

/** UpdateBooking with the status CANCELED, which is safe to repeat. Throws `PartnerFailure`, and `Problem` for a refusal. */
export async function cancel(
  { server, log }: { server: BookingServer; log: Log },
  booked: Booked,
  call: Call,
): Promise<void> {
  const result = await send(server, booked.reference, call);
  if (typeof result === 'string') return confirm(server, booked, result, call);
  const { cause, description } = result;
  if (cause === undefined || cause === 'BOOKING_ALREADY_CANCELLED') return;
  log.debug(
    { partner, request_id: call.requestId, cause, description },
    'the partner refuses a cancellation',
  );
  throw new Problem('conflict', `The dining partner refuses to cancel the table: ${cause}.`, {
    partnerCause: cause,
  });
}

/** `unclear`: neither a cancelled booking nor a refusal. `not found`: the partner does not know the booking. */
type CancelResult = { cause: string | undefined; description?: string | undefined } | 'unclear' | 'not found';

/** Throws `PartnerFailure`. */
async function send(server: BookingServer, reference: string, call: Call): Promise<CancelResult> {
  try {
    const { body } = await server.sendWithRetries(methods.update, cancelRequest(reference), call);
    const reply = readReply(body);
    if (reply === undefined) return 'unclear';
    if ('cause' in reply) return unknownBooking.includes(reply.cause) ? 'not found' : reply;
    return partStatus(reply.booking.status) === 'cancelled' ? { cause: undefined } : 'unclear';
  } catch (error) {
    const kind = error instanceof PartnerFailure ? error.kind : undefined;
    if (kind === 'missing' || kind === 'invalid') return 'not found';
    throw error;
  }
}

/**
 * Reads the booking's status, or the member's bookings where there is none: refused cancellations and unknown bookings may look the same.
 * Where the partner has neither method, it does not know the booking, provided that its address is right: UpdateBooking is
 * mandatory, so a HealthCheck there proves that.
 */
async function confirm(
  server: BookingServer,
  booked: Booked,
  answer: 'unclear' | 'not found',
  call: Call,
): Promise<void> {
  const status = await statusNow(server, booked, call);
  if (status === 'cancelled') return;
  if (status === 'unknown' && answer === 'not found') {
    await server.send(methods.healthCheck, undefined, call);
  } else if (status !== undefined || answer === 'unclear') {
    throw new PartnerFailure('broken', 'the booking may stand after it was cancelled', {
      outcomeUnknown: true,
    });
  }
}

/** Undefined where the partner has no such booking, `unknown` where it can't say. Throws `Problem` with an unknown outcome. */
async function statusNow(
  server: BookingServer,
  { reference, order }: Booked,
  call: Call,
): Promise<PartStatus | 'unknown' | undefined> {
  try {
    return (await retrieve(server, reference, order, call))?.status;
  } catch (error) {
    if (error instanceof PartnerFailure && error.kind === 'absent') return 'unknown';
    return throwOutcomeUnknown(error);
  }
}
