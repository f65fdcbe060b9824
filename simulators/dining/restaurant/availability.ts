import { type Booking, isStanding } from './booking.ts';
import type { Books } from './books.ts';
import { merchant, overlaps, type Slot } from './calendar.ts';
import { fail } from './failures.ts';
import type { Settings } from './settings.ts';

/** Whether the service has seats for the whole time; `except` is a booking that is about to move. */
export function hasSeats(books: Books, settings: Settings, slot: Slot, except?: Booking): boolean {
  if (slot.startSec * 1000 <= Date.now()) return false;
  const others = [...books.all()].filter(
    (booking) => booking.id !== except?.id && isStanding(booking) && overlaps(booking.slot, slot),
  );
  // Guests change only where a booking starts: the fullest moment is one of these.
  const moments = [slot.startSec, ...others.map((booking) => booking.slot.startSec)];
  return moments.every((moment) => guestsAt(others, moment) + slot.partySize <= settings.seats);
}

function guestsAt(bookings: readonly Booking[], moment: number): number {
  return bookings
    .filter(({ slot }) => slot.startSec <= moment && moment < slot.startSec + slot.durationSec)
    .reduce((guests, { slot }) => guests + slot.partySize, 0);
}

/** Refuses what this user may not book beside what they have. @throws Failure */
export function checkUser(books: Books, settings: Settings, userId: string, slot: Slot): void {
  const standing = books.ofUser(userId).filter(isStanding);
  const colliding = standing.filter((booking) => overlaps(booking.slot, slot));
  if (colliding.some((booking) => booking.slot.startSec === slot.startSec)) {
    fail('SLOT_ALREADY_BOOKED_BY_USER', 'the user holds this slot');
  }
  if (colliding.length > 0) fail('OVERLAPPING_RESERVATION', `the user dines at ${merchant.id} at that time`);
  const upcoming = standing.filter((booking) => booking.slot.startSec * 1000 > Date.now());
  if (upcoming.length >= settings.bookingsPerUser) fail('USER_OVER_BOOKING_LIMIT', 'too many bookings');
}
