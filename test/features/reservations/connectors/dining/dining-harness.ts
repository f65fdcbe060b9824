import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Connector, TableOrder } from '../../../../../src/features/reservations/connectors/connector.ts';
import { createDiningConnector } from '../../../../../src/features/reservations/connectors/dining/dining.ts';
import type { DiningPart } from '../../../../../src/features/reservations/connectors/dining/messages.ts';
import {
  type ReservationMetrics,
  reservationMetrics,
} from '../../../../../src/features/reservations/metrics.ts';
import { type Call, startCall } from '../../../../../src/platform/base/call.ts';
import { createMetrics, type Metrics } from '../../../../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../../../../src/platform/secrets/file.ts';
import type { SecretsManager } from '../../../../../src/platform/secrets/secrets-manager.ts';
import {
  type DiningPartner,
  partnerCredentials,
  slotInDays,
  startOwnPartner,
} from '../../../../support/dining-partner.ts';
import { type LogLine, recordLog } from '../../../../support/log.ts';

/** The dining connector with a simulated partner of its own. */
export interface DiningHarness {
  connector: Connector<TableOrder, DiningPart>;
  partner: DiningPartner;
  secrets: SecretsManager;
  logLines: LogLine[];
  metrics: Metrics & ReservationMetrics;
  /** Another connector to the same partner, as another process has it. */
  secondConnector(): Connector<TableOrder, DiningPart>;
  /** The partner's process is gone, its books are kept. */
  killPartner(): Promise<void>;
  restartPartner(): Promise<void>;
  close(): Promise<void>;
}

const passwordSecret = 'dining/dev/password';

export async function startDiningHarness(): Promise<DiningHarness> {
  const dir = await mkdtemp(join(tmpdir(), 'handoff-dining-'));
  const dataFile = join(dir, 'partner.jsonl');
  let running = await startOwnPartner({ dataFile });
  const { port } = running;
  const secrets = createFileSecretsManager({ dir: join(dir, 'secrets') });
  await secrets.write(passwordSecret, `${partnerCredentials.password}\n`, null);
  const opened = new AsyncDisposableStack();
  const { log, lines } = recordLog();
  const metrics = createMetrics(reservationMetrics);
  const connect = () =>
    createDiningConnector({
      baseUrl: running.partner.url,
      username: partnerCredentials.username,
      passwordSecret,
      merchants: [],
      secrets,
      secretsRefreshSeconds: 30,
      log,
      metrics,
      opened,
    });
  return {
    connector: connect(),
    partner: running.partner,
    secrets,
    logLines: lines,
    metrics,
    secondConnector: connect,
    killPartner: () => running.close(),
    restartPartner: async () => {
      running = await startOwnPartner({ dataFile, port });
    },
    close: async () => {
      await opened.disposeAsync();
      await running.close();
      await secrets.close();
      await rm(dir, { recursive: true, maxRetries: 5 });
    },
  };
}

let days = 1;

/** An order of a member and for a slot that no order before had. */
export function newOrder(change: Partial<TableOrder> = {}): TableOrder {
  days += 1;
  return {
    memberId: randomUUID(),
    merchantId: 'casa-olivo-7',
    serviceId: 'table',
    startAt: slotInDays(days),
    partySize: 4,
    durationMinutes: 90,
    timeZone: null,
    guest: {
      givenName: 'Ines',
      familyName: 'Marrero',
      email: 'ines.m@example.com',
      phone: '+34 600 000 114',
    },
    note: 'Reservation 0198c2d4',
    ...change,
  };
}

export function newCall(budgetMs = 25_000): Call {
  return startCall('test', undefined, budgetMs);
}
