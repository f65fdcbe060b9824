import { startCall } from '../../../../platform/base/call.ts';
import { createHttp } from '../../../../platform/http/http.ts';
import type { Log } from '../../../../platform/observability/log.ts';
import type { SecretsManager } from '../../../../platform/secrets/secrets-manager.ts';
import type { ReservationMetrics } from '../../metrics.ts';
import type { DiningSettings } from '../../settings.ts';
import type { Connector, TableConnector, TableOrder } from '../connector.ts';
import { areFree } from './availability.ts';
import { createBookingServer, methods, partner } from './booking-server.ts';
import { cancel } from './cancel.ts';
import { create } from './create.ts';
import type { DiningPart } from './messages.ts';
import { asProblem } from './partner-failure.ts';
import { createPartnerHealth } from './partner-health.ts';
import { createPassword } from './password.ts';
import { retrieve } from './retrieve.ts';

export interface DiningOptions extends DiningSettings {
  secrets: SecretsManager;
  secretsRefreshSeconds: number;
  log: Log;
  metrics: ReservationMetrics;
  opened: AsyncDisposableStack;
}

const longestCallMs = 8000;

/**
 * A dining partner that speaks the Actions Center "Booking server API v3". There is no circuit breaker: the driver of a
 * reservation backs off by itself, health shows an unavailable partner, and a breaker would block the very call that
 * resolves an unknown outcome.
 */
export function createDiningConnector(
  options: DiningOptions,
): Connector<TableOrder, DiningPart> & TableConnector {
  const { log, merchants, opened, secrets } = options;
  const http = createHttp(longestCallMs);
  opened.defer(() => http.close());
  const password = createPassword({
    secrets,
    name: options.passwordSecret,
    refreshSeconds: options.secretsRefreshSeconds,
  });
  opened.defer(() => password.stop());
  const health = createPartnerHealth({
    log,
    password,
    healthCheck: () => server.send(methods.healthCheck, undefined, startCall('health', undefined, 2000)),
  });
  const server = createBookingServer({ ...options, http, password, onOutcome: health.noteOutcome });
  return {
    name: partner,
    create: (order, attempt, call) =>
      create({ server, log }, order, attempt, call).catch((error: unknown) => {
        throw asProblem(error, attempt.repeated);
      }),
    retrieve: (reference, order, call) => retrieve(server, reference, order, call).catch(throwAsProblem),
    cancel: (reference, call) => cancel({ server, log }, reference, call).catch(throwAsProblem),
    merchants: () => merchants,
    areFree: (slots, call) => areFree(server, slots, call).catch(throwAsProblem),
    checkHealth: () => health.check(),
  };
}

function throwAsProblem(error: unknown): never {
  throw asProblem(error);
}
