import { type Core, defineFeature, type Started } from '../../feature.ts';
import { memberCache, recordCopy, reservationsOfTrip } from '../../records/offers.ts';
import { handoffParts } from '../handoff/feature.ts';
import { checkRoutes } from './routes/check.ts';
import { handOffTripRoute } from './routes/hand-off-trip.ts';
import { type TripParts, tripRoute } from './routes/trip.ts';

export const trips = defineFeature({
  name: 'trips',
  start,
  routes: (parts: TripParts) => [handOffTripRoute(parts), ...checkRoutes(parts), tripRoute(parts)],
});

function start({ offers, resources }: Core): Started<TripParts> {
  const parts = offers.find(handoffParts);
  if (parts === undefined) return { routes: null };
  // The features after this one offer them.
  const later = {
    members: () => offers.find(memberCache),
    copy: () => offers.find(recordCopy),
    reservations: () => offers.find(reservationsOfTrip),
  };
  return { routes: { ...parts, resources, ...later } };
}
