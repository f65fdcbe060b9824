import { type Core, defineFeature, type Started } from '../../feature.ts';
import { handoffParts } from '../handoff/feature.ts';
import type { HandoffParts } from '../handoff/routes/handoff.ts';
import { handOffTripRoute } from './routes/hand-off-trip.ts';

/** Several results of a trip in one request, checked before and seen together. */
export const trips = defineFeature({
  name: 'trips',
  start,
  routes: (parts: HandoffParts) => [handOffTripRoute(parts)],
});

function start({ offers }: Core): Started<HandoffParts> {
  return { routes: offers.find(handoffParts) ?? null };
}
