import { type Core, defineFeature, type Started } from '../../feature.ts';
import { memberCache, recordCopy } from '../../records/offers.ts';
import { handoffParts } from '../handoff/feature.ts';
import type { CheckParts } from './check.ts';
import { checkRoutes } from './routes/check.ts';
import { handOffTripRoute } from './routes/hand-off-trip.ts';

/** Several results of a trip in one request, checked before and seen together. */
export const trips = defineFeature({
  name: 'trips',
  start,
  routes: (parts: CheckParts) => [handOffTripRoute(parts), ...checkRoutes(parts)],
});

function start({ offers, resources }: Core): Started<CheckParts> {
  const parts = offers.find(handoffParts);
  if (parts === undefined) return { routes: null };
  // The features after this one offer them.
  return {
    routes: {
      ...parts,
      resources,
      members: () => offers.find(memberCache),
      copy: () => offers.find(recordCopy),
    },
  };
}
