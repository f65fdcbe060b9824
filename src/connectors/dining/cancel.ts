import type { Call } from '../../base/call.ts';
import { Problem } from '../../base/problem.ts';
import type { Log } from '../../observability/log.ts';
import type { Connector } from '../connector.ts';
import { type BookingServer, methods, partner } from './booking-server.ts';
import { cancelRequest, partStatus, readOutcome } from './messages.ts';
import type { DiningOrder } from './order.ts';
import { PartnerFailure, toProblem } from './partner-failure.ts';
import { statusOf } from './retrieve.ts';

interface Parts {
  server: BookingServer;
  log: Log;
}

/** How partners name a booking that they do not know, where they do not answer with 404; the first is invented. */
const unknownBooking = ['BOOKING_NOT_FOUND'];

/** UpdateBooking with the status CANCELED, which may be sent as often as it takes. */
export function createCancel(parts: Parts): Connector<DiningOrder>['cancel'] {
  return async (reference, call) => {
    try {
      await cancel(parts, reference, call);
    } catch (error) {
      throw error instanceof PartnerFailure ? toProblem(error) : error;
    }
  };
}

async function cancel({ server, log }: Parts, reference: string, call: Call): Promise<void> {
  const outcome = await send(server, reference, call);
  if (typeof outcome === 'string') return confirm(server, reference, outcome, call);
  const { cause, description } = outcome;
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
type Sent = { cause: string | undefined; description?: string | undefined } | 'unclear' | 'not found';

/** Throws `PartnerFailure`. */
async function send(server: BookingServer, reference: string, call: Call): Promise<Sent> {
  try {
    const { body } = await server.sendPatiently(methods.update, cancelRequest(reference), call);
    const outcome = readOutcome(body);
    if (outcome === undefined) return 'unclear';
    if ('cause' in outcome) return unknownBooking.includes(outcome.cause) ? 'not found' : outcome;
    return partStatus(outcome.booking.status) === 'cancelled' ? { cause: undefined } : 'unclear';
  } catch (error) {
    const says = error instanceof PartnerFailure ? error.kind : undefined;
    if (says === 'missing' || says === 'invalid') return 'not found';
    throw error;
  }
}

/**
 * Asks for the booking's status. Where the partner tells none either, it does not know the booking, if only its
 * address is right: UpdateBooking is mandatory, so a HealthCheck there shows that.
 */
async function confirm(
  server: BookingServer,
  reference: string,
  answer: 'unclear' | 'not found',
  call: Call,
): Promise<void> {
  const status = await statusOf(server, reference, call).catch((error: unknown) => {
    if (!(error instanceof PartnerFailure)) throw error;
    throw new PartnerFailure(error.kind, error.message, { ...error.facts, outcomeUnknown: true });
  });
  if (status === 'cancelled') return;
  if (status !== undefined || answer === 'unclear') {
    throw new PartnerFailure('broken', 'the booking may stand after it was cancelled', {
      outcomeUnknown: true,
    });
  }
  await server.send(methods.healthCheck, undefined, call);
}
