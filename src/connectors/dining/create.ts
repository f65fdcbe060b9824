import { setTimeout as delay } from 'node:timers/promises';
import type { Call } from '../../base/call.ts';
import { Problem } from '../../base/problem.ts';
import type { Log } from '../../observability/log.ts';
import type { Attempt, Connector } from '../connector.ts';
import { type BookingServer, methods, partner } from './booking-server.ts';
import { bookingsOf } from './bookings-of.ts';
import {
  availabilityRequest,
  type BookingMessage,
  createRequest,
  isLike,
  type Outcome,
  partStatus,
  readOutcome,
  saysUnavailable,
  toPart,
} from './messages.ts';
import type { DiningOrder, DiningPart } from './order.ts';
import { PartnerFailure, toProblem } from './partner-failure.ts';

/*
 * Booking a table, exactly once for each token:
 *
 *   asked ── the slot is gone ──────────────────────────────────────────▶ refused
 *     │
 *   sent (up to three times, the same bytes)
 *     ├─ booking ───────────────────────────────────────────────────────▶ booked
 *     ├─ failure, and no send before whose outcome is unknown ──────────▶ refused
 *     ├─ no answer ─────────────────────────────────────────────────────▶ unknown
 *     └─ failure after a send whose outcome is unknown: the failure may be our own doing
 *          ├─ ListBookings has the table, and no other order holds it ──▶ booked
 *          ├─ ListBookings does not have it ────────────────────────────▶ refused
 *          ├─ no ListBookings, a cause that can't be our own doing ─────▶ refused
 *          └─ no ListBookings: the same token again
 *               ├─ booking ─────────────────────────────────────────────▶ booked
 *               ├─ SLOT_UNAVAILABLE again: the token has no booking ────▶ refused
 *               └─ else ────────────────────────────────────────────────▶ unknown
 *
 * `unknown` is thrown as a problem with `outcomeUnknown`; the next attempt with the same token starts at `sent`.
 */

/** Causes that a table which an earlier send has booked can bring about. `HTTP_400`: its start may have passed since. */
const ownDoing = ['SLOT_UNAVAILABLE', 'SLOT_ALREADY_BOOKED_BY_USER', 'OVERLAPPING_RESERVATION', 'HTTP_400'];

/** Before the same token is tried once more, in milliseconds. */
const secondThoughtMs = 1000;

interface Parts {
  server: BookingServer;
  log: Log;
}

type Create = Connector<DiningOrder, DiningPart>['create'];

/** What one try came to. */
type Tried = Outcome & { isDoubtful: boolean };

export function createCreate(parts: Parts): Create {
  return async (order, attempt, call) => {
    try {
      if (!attempt.repeated) await checkAvailability(parts.server, order, call);
      const tried = await book(parts, order, attempt, call);
      if ('booking' in tried) return accept(tried.booking);
      if (!tried.isDoubtful) throw refusal(tried.cause);
      return await settle(parts, order, attempt, tried.cause, call);
    } catch (error) {
      throw error instanceof PartnerFailure ? toProblem(error, attempt.repeated) : error;
    }
  };
}

/**
 * Partners count a slot that is gone at CreateBooking as their own error, so they are asked just before. Whatever goes
 * wrong here is left to CreateBooking to tell.
 */
async function checkAvailability(server: BookingServer, order: DiningOrder, call: Call): Promise<void> {
  const answer = await server
    .sendPatiently(methods.availability, availabilityRequest(order), call)
    .catch((error: unknown) => {
      if (error instanceof PartnerFailure) return undefined;
      throw error;
    });
  if (answer && saysUnavailable(answer.body, order)) throw refusal('SLOT_UNAVAILABLE');
}

/** Sends the order. A status 400 is a refusal of the order as such. Throws `PartnerFailure`. */
async function book(
  { server, log }: Parts,
  order: DiningOrder,
  attempt: Attempt,
  call: Call,
): Promise<Tried> {
  const body = createRequest(order, attempt.token);
  try {
    const answer = await server.sendPatiently(methods.create, body, call);
    const outcome = readOutcome(answer.body);
    if (outcome === undefined) {
      throw new PartnerFailure('broken', 'neither a booking nor a failure', { outcomeUnknown: true });
    }
    if ('cause' in outcome) {
      const { cause, description } = outcome;
      log.debug({ partner, request_id: call.requestId, cause, description }, 'the partner refuses a table');
    }
    return { ...outcome, isDoubtful: answer.isDoubtful || attempt.repeated };
  } catch (error) {
    if (!(error instanceof PartnerFailure) || error.kind !== 'invalid') throw error;
    const isDoubtful = error.facts.outcomeUnknown === true || attempt.repeated;
    return { cause: 'HTTP_400', description: undefined, isDoubtful };
  }
}

/** A status that the protocol does not have is asked for later. */
function accept(booking: BookingMessage): DiningPart {
  const status = partStatus(booking.status) ?? 'pending';
  if (status === 'confirmed' || status === 'pending') return toPart(booking, status);
  throw refusal(booking.status ?? 'FAILED');
}

function refusal(cause: string): Problem {
  return new Problem('partner_rejected', `The dining partner refused the table: ${cause}.`, {
    partnerCause: cause,
  });
}

/** Finds out what a failure is worth that an earlier send may have caused itself. */
async function settle(
  parts: Parts,
  order: DiningOrder,
  attempt: Attempt,
  cause: string,
  call: Call,
): Promise<DiningPart> {
  const listed = await bookingsOf(parts.server, order.memberId, call).catch(unsure);
  if (listed) {
    const booking = await findOurs(listed, order, attempt);
    if (booking) return accept(booking);
    throw refusal(cause);
  }
  if (!ownDoing.includes(cause)) throw refusal(cause);
  await delay(secondThoughtMs);
  const again = await book(parts, order, attempt, call).catch(unsure);
  if ('booking' in again) return accept(again.booking);
  // A partner that has a booking for this token would have answered with it.
  if (cause === 'SLOT_UNAVAILABLE' && again.cause === cause) throw refusal(cause);
  if (!ownDoing.includes(again.cause)) throw refusal(again.cause);
  throw new Problem(
    'partner_error',
    `The dining partner says ${again.cause}, and can not be asked whether that is about this table.`,
    { outcomeUnknown: true },
  );
}

/** The outcome of an earlier send stays unknown, whatever went wrong in finding it out. */
function unsure(error: unknown): never {
  throw error instanceof PartnerFailure ? toProblem(error, true) : error;
}

async function findOurs(
  bookings: readonly BookingMessage[],
  order: DiningOrder,
  attempt: Attempt,
): Promise<BookingMessage | undefined> {
  for (const booking of bookings) {
    const status = partStatus(booking.status);
    const isStanding = status === 'confirmed' || status === 'pending';
    if (isStanding && isLike(booking, order) && !(await attempt.isOthers(booking.id))) return booking;
  }
  return undefined;
}
