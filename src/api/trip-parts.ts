import type { Consumer } from '../identity/consumers/consumer.ts';
import type { Call } from '../platform/base/call.ts';
import { defineOffer } from '../platform/base/offers.ts';

/** What a feature knows of a trip. */
export interface TripPart {
  /** Its name in the answer. */
  name: 'reservations';
  /** As its list shows them to the caller, newest first; one more than `limit` where there are more. */
  list(tripId: string, limit: number, reader: { consumer: Consumer; call: Call }): Promise<object[]>;
}

export const tripParts = defineOffer<readonly TripPart[]>('parts of trips');
