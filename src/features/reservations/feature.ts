import { historySources, historySubjects } from '../../api/history.ts';
import { reservationsOfTrip } from '../../api/trip-parts.ts';
import { type Core, defineFeature, type Erasure, type ErasureStores, type Started } from '../../feature.ts';
import { describeAddress } from '../../platform/simulators/simulator.ts';
import { memberCache, recordCopy, requireFreeBooking, testWorlds } from '../../records/offers.ts';
import { laterStatuses } from '../../records/quotes-and-bookings.ts';
import { registerReservationCommands } from './cli.ts';
import { type Connectors, healthOf, openConnectors } from './connectors/connectors.ts';
import { emptyTestTables, liveOrTestTables } from './connectors/test-tables.ts';
import { diningCheck } from './doctor.ts';
import { diningHealth } from './health.ts';
import { type ReservationMetrics, reservationMetrics } from './metrics.ts';
import { PlansTable } from './plans-table.ts';
import { createReservationHistory } from './reservation-history.ts';
import { createReservations, type Reservations, startRecovery } from './reservations.ts';
import { heldByReservation, type ReservationParts, reservationRoutes } from './routes/reservations.ts';
import { reservationAnswers } from './routes/schemas.ts';
import {
  type DiningSettings,
  type ReservationsSettings,
  readTimeZones,
  reservationsPart,
} from './settings.ts';
import { partnerSimulator } from './simulated-partner.ts';
import { viewOfVisibleFields } from './view.ts';

type ReservationsCore = Core<ReservationsSettings, ReservationMetrics>;

export const reservations = defineFeature({
  name: 'reservations',
  settings: reservationsPart,
  metrics: reservationMetrics,
  tags: {
    Reservations: 'Tables at a dining partner, each with its booking in the CRM: both or neither.',
  },
  health: { dining: diningHealth },
  simulator: partnerSimulator,
  start,
  banner: ({ settings, simulated }) => ({
    systems: [
      [
        'Dining',
        ...describeAddress(simulated['dining'], settings.dining.baseUrl, 'set dining.* for a real partner'),
      ],
    ],
  }),
  routes: (parts: ReservationParts, cursors) => reservationRoutes(parts, cursors),
  commands: registerReservationCommands,
  checks: [diningCheck],
  erasers: [{ part: 'reservations', otherFields: { not_erased: [] }, erase }],
});

function start(core: ReservationsCore): Started<ReservationParts> {
  const { settings, crm, records, database } = core;
  const { dining, secretsRefreshSeconds, idempotencyRetentionHours } = settings;
  const connectors = openConnectors({
    ...core,
    // It coalesces its probes itself, and every call counts as one.
    crm: {
      records,
      booking: core.resources.booking,
      checkHealth: async () => ({ ...(await crm.health.check()) }),
    },
    dining: dining.baseUrl === undefined ? undefined : (dining as DiningSettings),
    secretsRefreshSeconds,
  });
  const plans = new PlansTable(database);
  const made = open(core, connectors, plans);
  // Also without a dining partner: there may have been one.
  core.offers.find(testWorlds)?.emptying.add(async (consumerId, days) => {
    await plans.forget(consumerId, days);
    await emptyTestTables(database, consumerId, days);
  });
  return {
    routes: made && {
      reservations: made,
      records,
      resources: core.resources,
      memberSource: {
        records,
        member: core.resources.member,
        // The features after this one offer them.
        cache: () => core.offers.find(memberCache),
        copy: () => core.offers.find(recordCopy),
      },
      timeZones: readTimeZones(dining),
    },
    health: healthOf(connectors),
    jobs: [
      {
        name: 'clear-refused-reservations',
        cron: '47 * * * *',
        steps: { reservations: (signal) => plans.clearRefused(idempotencyRetentionHours, signal) },
      },
      {
        name: 'erase-old-reservations',
        cron: '27 * * * *',
        steps: { reservations: (signal) => plans.eraseOlderThan(settings.reservationRetentionDays, signal) },
      },
    ],
  };
}

/** Null without a dining partner. */
function open(core: ReservationsCore, { crm, dining }: Connectors, plans: PlansTable): Reservations | null {
  if (!dining) return null;
  core.resources.booking.fit.laterStatuses = laterStatuses;
  const made = createReservations({
    ...core,
    crm,
    dining: liveOrTestTables(dining, core.database),
    answers: reservationAnswers,
  });
  const recovery = startRecovery(made, core.log);
  core.opened.defer(() => recovery.stop());
  core.offers.make(reservationsOfTrip, async (tripId, limit, call) => {
    const found = await made.list({ tripId, limit: limit + 1 }, call);
    return found.map((view) => viewOfVisibleFields(view, call.visibleFields?.('bookings')));
  });
  core.offers.add(historySubjects, 'reservation');
  core.offers.add(historySources, createReservationHistory(plans));
  core.offers.make(requireFreeBooking, async (id, call) => {
    if (await made.holds(id, call)) throw heldByReservation(id);
  });
  return made;
}

/** Reservations that are in progress still need their data. */
async function erase(memberId: string, { database }: ErasureStores): Promise<Erasure> {
  const plans = await new PlansTable(database).eraseMember(memberId);
  const erased = plans.filter((plan) => plan.is_erased).map(({ id }) => id);
  const left = plans
    .filter((plan) => !plan.is_erased)
    .map(({ id, status, state }) => ({ id, status, state }));
  return {
    label: 'reservations',
    count: erased.length,
    fields: { reservations: erased, not_erased: left },
    left: left.map(
      ({ id, status, state }) =>
        `the reservation ${id} is still in progress (${status}, ${state}). Cancel it, or wait, and run this again.`,
    ),
  };
}
