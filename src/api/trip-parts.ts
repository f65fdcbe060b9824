import type { Call } from '../platform/base/call.ts';
import { defineOffer } from '../platform/base/offers.ts';

/** Reservations of a trip, as their list shows them to the caller, newest first; one more than `limit` where there are more. */
export type ReservationsOfTrip = (tripId: string, limit: number, call: Call) => Promise<object[]>;

export const reservationsOfTrip = defineOffer<ReservationsOfTrip>('the reservations of a trip');
