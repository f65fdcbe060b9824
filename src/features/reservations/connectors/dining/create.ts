import type { Call } from '../../../../platform/base/call.ts';
import { sleep } from '../../../../platform/base/chance.ts';
import { Problem } from '../../../../platform/base/problem.ts';
import type { Log } from '../../../../platform/observability/log.ts';
import type { CreateAttempt, TableOrder } from '../connector.ts';
import { type BookingServer, methods, partner } from './booking-server.ts';
import {
  availabilityOf,
  availabilityRequest,
  type BookingMessage,
  type BookingReply,
  createRequest,
  type DiningPart,
  isLike,
  partStatus,
  readReply,
  toPart,
} from './messages.ts';
import { PartnerFailure, throwOutcomeUnknown } from './partner-failure.ts';
import { bookingsOf } from './retrieve.ts';

/*
 * Booking a table, exactly once for each token:
 *
 *   asked ── the slot is gone ──────────────────────────────────────────▶ refused
 *     │
 *   sent (up to three times, the same bytes)
 *     ├─ booking ───────────────────────────────────────────────────────▶ booked
 *     ├─ failure, and no send before whose outcome is unknown ──────────▶ refused
 *     ├─ no answer ─────────────────────────────────────────────────────▶ unknown
 *     └─ failure after a send whose outcome is unknown: the failure may be our own effect
 *          ├─ ListBookings has the table, and no other order holds it ──▶ booked
 *          ├─ ListBookings has one that may be another order's ─────────▶ unknown
 *          ├─ ListBookings does not have it ────────────────────────────▶ refused
 *          ├─ no ListBookings, a cause that can't be our own effect ────▶ refused
 *          └─ no ListBookings: the same token again
 *               ├─ booking ─────────────────────────────────────────────▶ booked
 *               ├─ SLOT_UNAVAILABLE again: the token has no booking ────▶ refused
 *               └─ else ────────────────────────────────────────────────▶ unknown
 *
 * `unknown` is thrown as a problem with `outcomeUnknown`; the next attempt with the same token starts at `sent`.
 */

/** Causes that an earlier send can have brought about by booking the table. `HTTP_400`: its start may have passed since. */
const ownEffects = ['SLOT_UNAVAILABLE', 'SLOT_ALREADY_BOOKED_BY_USER', 'OVERLAPPING_RESERVATION', 'HTTP_400'];

/** Before the same token is tried once more, in milliseconds. */
const repeatPauseMs = 1000;

interface Parts {
  server: BookingServer;
  log: Log;
}

/** The reply to one try. `earlierOutcomeUnknown`: an earlier send may have booked the table. */
type TryResult = BookingReply & { earlierOutcomeUnknown: boolean };

/** Throws `PartnerFailure`, and `Problem` for a refusal. */
export async function create(
  parts: Parts,
  order: TableOrder,
  attempt: CreateAttempt,
  call: Call,
): Promise<DiningPart> {
  if (!attempt.repeated) await checkAvailability(parts.server, order, call);
  const tried = await book(parts, order, attempt, call);
  if ('booking' in tried) return accept(tried.booking);
  if (!tried.earlierOutcomeUnknown) throw refusal(tried.cause);
  return reconcile(parts, order, attempt, tried.cause, call);
}

/**
 * Partners count a slot that is gone at CreateBooking as their own error, so availability is checked just before. Other
 * failures are ignored here: CreateBooking will meet them too.
 */
async function checkAvailability(server: BookingServer, order: TableOrder, call: Call): Promise<void> {
  const answer = await server
    .sendWithRetries(methods.availability, availabilityRequest([order]), call)
    .catch((error: unknown) => {
      if (error instanceof PartnerFailure) return undefined;
      throw error;
    });
  if (answer && availabilityOf(answer.body, order) === false) throw refusal('SLOT_UNAVAILABLE');
}

/** Sends the order. A status 400 is a refusal of the order as such. Throws `PartnerFailure`. */
async function book(
  { server, log }: Parts,
  order: TableOrder,
  attempt: CreateAttempt,
  call: Call,
): Promise<TryResult> {
  const body = createRequest(order, attempt.token);
  try {
    const answer = await server.sendWithRetries(methods.create, body, call);
    const reply = readReply(answer.body);
    if (reply === undefined) {
      throw new PartnerFailure('broken', 'neither a booking nor a failure', { outcomeUnknown: true });
    }
    if ('cause' in reply) {
      const { cause, description } = reply;
      log.debug({ partner, request_id: call.requestId, cause, description }, 'the partner refuses a table');
    }
    return { ...reply, earlierOutcomeUnknown: answer.earlierOutcomeUnknown || attempt.repeated };
  } catch (error) {
    if (!(error instanceof PartnerFailure) || error.kind !== 'invalid') throw error;
    const earlierOutcomeUnknown = error.facts.outcomeUnknown === true || attempt.repeated;
    return { cause: 'HTTP_400', description: undefined, earlierOutcomeUnknown };
  }
}

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

async function reconcile(
  parts: Parts,
  order: TableOrder,
  attempt: CreateAttempt,
  cause: string,
  call: Call,
): Promise<DiningPart> {
  const listed = await bookingsOf(parts.server, order.memberId, call).catch(throwOutcomeUnknown);
  if (listed) {
    const booking = await findOurs(listed, order, attempt);
    if (booking) return accept(booking);
    throw refusal(cause);
  }
  if (!ownEffects.includes(cause)) throw refusal(cause);
  await sleep(repeatPauseMs);
  const again = await book(parts, order, attempt, call).catch(throwOutcomeUnknown);
  if ('booking' in again) return accept(again.booking);
  // A partner that has a booking for this token would have answered with it.
  if (cause === 'SLOT_UNAVAILABLE' && again.cause === cause) throw refusal(cause);
  if (!ownEffects.includes(again.cause)) throw refusal(again.cause);
  throw new Problem(
    'partner_error',
    `The dining partner answers ${again.cause}, and offers no way to find out whether that is about this table.`,
    { outcomeUnknown: true },
  );
}

async function findOurs(
  bookings: readonly BookingMessage[],
  order: TableOrder,
  attempt: CreateAttempt,
): Promise<BookingMessage | undefined> {
  for (const booking of bookings) {
    const status = partStatus(booking.status);
    const isStanding = status === 'confirmed' || status === 'pending';
    if (isStanding && isLike(booking, order) && !(await attempt.isOthers(booking.id))) return booking;
  }
  return undefined;
}
