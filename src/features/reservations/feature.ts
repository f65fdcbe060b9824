import { join } from 'node:path';
import { Type } from 'typebox';
import {
  entry,
  type FoundEntry,
  type HistoryKind,
  type HistorySource,
  historySources,
  historySubjects,
} from '../../api/history.ts';
import {
  type Core,
  type DoctorCheck,
  defineFeature,
  type Erasure,
  type ErasureStores,
  NothingToCheck,
  type Started,
  secretsOf,
  settingsOf,
} from '../../feature.ts';
import { isFieldVisible, type VisibleFields } from '../../platform/base/call.ts';
import { randomBytes } from '../../platform/base/chance.ts';
import { createMetrics } from '../../platform/observability/metrics.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { describeAddress, readOrMakeSecret, type Simulator } from '../../platform/simulators/simulator.ts';
import { viewOfCreator } from '../../records/created-by.ts';
import { memberSourceOf } from '../../records/member-names.ts';
import { requireFreeBooking, reservationsOfTrip, testWorlds } from '../../records/offers.ts';
import { booking, laterStatuses } from '../../records/quotes-and-bookings.ts';
import { registerReservationCommands } from './cli.ts';
import { type Connectors, healthOf, openConnectors } from './connectors/connectors.ts';
import { checkDiningPartner } from './connectors/dining/dining.ts';
import { emptyTestTables, liveOrTestTables } from './connectors/test-tables.ts';
import { type ReservationMetrics, reservationMetrics } from './metrics.ts';
import type { Plan, PlanStep } from './plan.ts';
import { PlansTable } from './plans-table.ts';
import { createReservations, type Reservations, startRecovery } from './reservations.ts';
import { heldByReservation, type ReservationParts, reservationRoutes } from './routes/reservations.ts';
import { reservationAnswers } from './routes/schemas.ts';
import {
  type DiningSettings,
  type ReservationsSettings,
  readTimeZones,
  reservationsPart,
} from './settings.ts';
import { viewOfVisibleFields } from './view.ts';

const partnerSimulator: Simulator = {
  name: 'dining',
  async start(settings, secrets, opened) {
    const { dining, dataDir, production } = settings as Settings & ReservationsSettings;
    if (dining.baseUrl !== undefined || production) return undefined;
    const password = await readOrMakeSecret(secrets, dining.passwordSecret, () =>
      randomBytes(24).toString('base64url'),
    );
    const username = 'handoff-gateway';
    // Imported here only; production never comes here.
    const { startDiningSimulator } = await import('../../../simulators/dining/simulator.ts');
    const dataFile = join(dataDir, 'simulated-partner.jsonl');
    const partner = await startDiningSimulator({ username, password, dataFile });
    opened.defer(() => partner.close());
    return {
      settings: {
        'dining.baseUrl': partner.url,
        'dining.username': username,
        'dining.merchants': dining.merchants.length > 0 ? dining.merchants : partner.merchants,
      },
      url: partner.url,
    };
  },
};

const kinds: Readonly<Record<string, HistoryKind>> = {
  confirmed: 'created',
  failed: 'failed',
  cancelled: 'cancelled',
};

function createReservationHistory(plans: PlansTable): HistorySource {
  return async ({ type, id }, { call }) => {
    if (type !== 'reservation') return [];
    const plan = await plans.find(id, call.visible(booking.collection));
    if (plan === undefined || plan.state === 'refused') return [];
    return entriesOf(plan, await plans.steps(id), call.visibleFields?.(booking.collection));
  };
}

function entriesOf(plan: Plan, stored: readonly PlanStep[], visible: VisibleFields): FoundEntry[] {
  const by = isFieldVisible(visible, 'created_by') ? viewOfCreator(plan.creator) : null;
  const endpoint = 'POST /v1/reservations';
  const requested = entry(plan.createdAt, 'requested', { by, endpoint, once: 'requested' });
  // Steps show the status.
  if (!isFieldVisible(visible, 'status')) return [requested];
  return [requested, ...stored.map((one, i) => ofStep(one, stored[i - 1]))];
}

function ofStep({ step, at }: PlanStep, before: PlanStep | undefined): FoundEntry {
  // One whose cancellation was refused is confirmed again.
  const isBack = step === 'confirmed' && before?.step === 'cancelling_table';
  const kind = isBack ? 'step' : (kinds[step] ?? 'step');
  return entry(new Date(at), kind, { changes: [{ field: 'step', from: before?.step ?? null, to: step }] });
}

const diningHealth = Type.Optional(
  Type.Object(
    {
      connected: Type.Boolean(),
      reason: Type.Optional(
        Type.String({
          maxLength: 100,
          description: "`credentials`: the partner refuses the gateway's.",
        }),
      ),
    },
    { description: 'The dining partner, where there is one.', examples: [{ connected: true }] },
  ),
);

const diningCheck: DoctorCheck = {
  name: 'dining partner',
  needs: ['secrets manager'],
  async run(context) {
    const { dining, production } = settingsOf(context) as Settings & ReservationsSettings;
    if (dining.baseUrl === undefined) {
      const instead = production ? 'there are no reservations' : 'the gateway simulates a partner';
      throw new NothingToCheck(`dining.* isn't set, so ${instead}.`);
    }
    const metrics = createMetrics(reservationMetrics);
    return checkDiningPartner({ ...(dining as DiningSettings), secrets: secretsOf(context), metrics });
  },
};

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
      memberSource: memberSourceOf(core),
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
        `reservation ${id} is still in progress (${status}, ${state}). Cancel it or wait, then run this again.`,
    ),
  };
}
