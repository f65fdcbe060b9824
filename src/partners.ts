import type { Crm } from './crm/crm.ts';
import { type SimulatedPartner, startSimulatedPartner } from './embedded/simulators.ts';
import { type Connectors, openConnectors } from './features/reservations/connectors/connectors.ts';
import {
  createReservations,
  type Reservations,
  startRecovery,
} from './features/reservations/reservations.ts';
import { reservationAnswers } from './features/reservations/routes/schemas.ts';
import type { Log } from './platform/observability/log.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { SecretsManager } from './platform/secrets/secrets-manager.ts';
import type { DiningSettings, Settings } from './platform/settings/table.ts';
import type { Database } from './platform/store/database.ts';

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  /** What is opened here is closed through it. */
  opened: AsyncDisposableStack;
  secrets: SecretsManager;
  database: Database;
  crm: Crm;
}

export interface Partners {
  connectors: Connectors;
  /** Null without a dining partner. */
  reservations: Reservations | null;
  /** Where no real one is configured. */
  diningPartner: SimulatedPartner | undefined;
}

/** The systems that reservations span, and the reservations. Production takes no simulated partner. */
export async function connectPartners(parts: Parts): Promise<Partners> {
  const { settings, log, metrics, opened, secrets, crm } = parts;
  const { dining, secretsRefreshSeconds } = settings;
  const diningPartner = await startSimulatedPartner(settings, secrets, opened);
  const connectors = openConnectors({
    // It coalesces its probes itself, and every call counts as one.
    crm: { records: crm.records, checkHealth: async () => ({ ...(await crm.health.check()) }) },
    dining:
      dining.baseUrl || diningPartner
        ? ({ ...dining, ...diningPartner?.settings } as DiningSettings)
        : undefined,
    secrets,
    secretsRefreshSeconds,
    log,
    metrics,
    opened,
  });
  return { connectors, reservations: startReservations(parts, connectors), diningPartner };
}

function startReservations(
  { log, metrics, opened, database, crm: { records } }: Parts,
  { crm, dining }: Connectors,
): Reservations | null {
  if (!dining) return null;
  const options = { database, log, metrics, records, crm, dining, answers: reservationAnswers };
  const reservations = createReservations(options);
  opened.use(startRecovery(reservations, log));
  return reservations;
}
