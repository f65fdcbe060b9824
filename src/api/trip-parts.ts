import type { Call } from '../platform/base/call.ts';
import { defineOffer } from '../platform/base/offers.ts';

export type ReservationsOfTrip = (tripId: string, limit: number, call: Call) => Promise<object[]>;

export const reservationsOfTrip = defineOffer<ReservationsOfTrip>('the reservations of a trip');
