import { startCall } from '../../../../platform/base/call.ts';
import { randomUUID } from '../../../../platform/base/chance.ts';
import { createHttp } from '../../../../platform/http/http.ts';
import type { SecretsManager } from '../../../../platform/secrets/secrets-manager.ts';
import type { ReservationMetrics } from '../../metrics.ts';
import type { DiningSettings } from '../../settings.ts';
import { type BookingServer, createBookingServer, type Method, methods } from './booking-server.ts';
import { listRequest } from './messages.ts';
import { PartnerFailure, type PartnerFailureKind } from './partner-failure.ts';
import { createPassword } from './password.ts';

const checkMs = 5000;

/**
 * Checks for the operator whether the partner answers and accepts our credentials; books nothing. Returns what it found.
 * Throws an error that says what to fix.
 */
export async function checkDiningPartner(
  options: DiningSettings & { secrets: SecretsManager; metrics: ReservationMetrics },
): Promise<string> {
  const http = createHttp(checkMs);
  const { secrets, passwordSecret: name } = options;
  const password = createPassword({ secrets, name, refreshSeconds: checkMs });
  const server = createBookingServer({ ...options, http, password, onOutcome: () => undefined });
  try {
    await server.send(methods.healthCheck, undefined, startCall('doctor', undefined, checkMs));
    // Some accept a HealthCheck without credentials: so a list is requested, of a user that does not exist.
    const hasList = await supports(server, methods.list, listRequest(randomUUID()));
    return `${options.baseUrl}${hasList ? '' : ", which doesn't offer ListBookings, so unknown outcomes may need a person"}`;
  } catch (error) {
    if (error instanceof PartnerFailure) throw new Error(howToFix(error, options), { cause: error });
    throw error;
  } finally {
    password.stop();
    await http.close();
  }
}

/** Whether the partner has the method, as far as its answer shows. Throws `PartnerFailure`, also for credentials. */
async function supports(server: BookingServer, method: Method, body: string): Promise<boolean> {
  try {
    await server.send(method, body, startCall('doctor', undefined, checkMs));
    return true;
  } catch (error) {
    if (!(error instanceof PartnerFailure)) throw error;
    if (error.kind === 'absent') return false;
    // It need not know the user.
    if (error.kind === 'missing' || error.kind === 'invalid') return true;
    throw error;
  }
}

const advice: Partial<Record<PartnerFailureKind, string>> = {
  missing: 'Check dining.baseUrl, which is whatever comes before /v3/HealthCheck.',
  unreachable: 'Check dining.baseUrl and the network.',
  timeout: 'Check dining.baseUrl and the network.',
};

function howToFix(
  { kind, message, facts }: PartnerFailure,
  { passwordSecret, username }: DiningSettings,
): string {
  if (kind !== 'credentials') return `Can't use the partner: ${message}. ${advice[kind] ?? ''}`.trimEnd();
  if (facts.status === undefined) return `${message}. Store it there.`;
  return (
    `The partner rejects ${username} (status ${facts.status}). Its credentials expire after six months: get new ones, ` +
    `and store the password in the secret ${passwordSecret}.`
  );
}
