import { reservationAnswers } from './api/v1/reservations/shared.ts';
import { type Connectors, openConnectors } from './connectors/registry.ts';
import type { Crm } from './crm/crm.ts';
import { type SimulatedPartner, startSimulatedPartner } from './embedded/simulated-partner.ts';
import type { Log } from './observability/log.ts';
import type { Metrics } from './observability/metrics.ts';
import { startRecovery } from './reservations/recovery.ts';
import { createReservations, type Reservations } from './reservations/reservations.ts';
import type { SecretsManager } from './secrets/secrets-manager.ts';
import type { Settings } from './settings/settings.ts';
import type { Database } from './store/database.ts';

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
  const { dataDir, diningPasswordSecret: passwordSecret, secretsRefreshSeconds, production } = settings;
  const isSimulated = settings.dining === undefined && !production;
  const diningPartner = isSimulated
    ? await startSimulatedPartner({ secrets, passwordSecret, dataDir })
    : undefined;
  if (diningPartner) opened.defer(() => diningPartner.close());
  const address = settings.dining ?? diningPartner?.address;
  const connectors = openConnectors({
    // It shares its looks itself, and learns from every call.
    crm: { records: crm.records, checkHealth: async () => ({ ...(await crm.health.check()) }) },
    dining: address && { ...address, passwordSecret },
    secrets,
    secretsRefreshSeconds,
    log,
    metrics,
    opened,
  });
  return { connectors, reservations: startReservations(parts, connectors), diningPartner };
}

function startReservations(
  { settings, log, metrics, opened, database, crm: { records } }: Parts,
  { crm, dining }: Connectors,
): Reservations | null {
  if (!dining) return null;
  const { idempotencyRetentionHours: retentionHours } = settings;
  const options = { database, log, metrics, records, crm, dining, answers: reservationAnswers };
  const reservations = createReservations({ ...options, retentionHours });
  opened.use(startRecovery(reservations, log));
  return reservations;
}
