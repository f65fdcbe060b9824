import { randomUUID } from 'node:crypto';
import { startCall } from '../../base/call.ts';
import { createHttp } from '../../http/http.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { SecretsManager } from '../../secrets/secrets-manager.ts';
import { type BookingServer, createBookingServer, type Method, methods } from './booking-server.ts';
import type { DiningSettings } from './dining-connector.ts';
import { listRequest } from './messages.ts';
import { PartnerFailure, type PartnerFailureKind } from './partner-failure.ts';
import { createPassword } from './password.ts';

const checkMs = 5000;

export interface DiningCheckOptions extends DiningSettings {
  secrets: SecretsManager;
  metrics: Metrics;
}

/**
 * Looks, for whoever sets the partner up, whether it answers and lets us in; books nothing. Says what it found, and
 * throws what is to be mended.
 */
export async function checkDiningPartner(options: DiningCheckOptions): Promise<string> {
  const http = createHttp(checkMs);
  const { secrets, passwordSecret: name } = options;
  const password = createPassword({ secrets, name, refreshSeconds: checkMs });
  const server = createBookingServer({ ...options, http, password, onOutcome: () => undefined });
  try {
    await server.send(methods.healthCheck, undefined, startCall('doctor', undefined, checkMs));
    // Some take a HealthCheck from anybody: a question that every partner checks the credentials of, about nobody.
    const hasList = await asksFor(server, methods.list, listRequest(randomUUID()));
    return `${options.baseUrl}${hasList ? '' : ', without ListBookings: unknown outcomes may need a person'}`;
  } catch (error) {
    if (error instanceof PartnerFailure) throw new Error(mend(error, options), { cause: error });
    throw error;
  } finally {
    password.stop();
    await http.close();
  }
}

/** Whether the partner lets us in and, as far as it can be seen, has the method. Throws `PartnerFailure`. */
async function asksFor(server: BookingServer, method: Method, body: string): Promise<boolean> {
  try {
    await server.send(method, body, startCall('doctor', undefined, checkMs));
    return true;
  } catch (error) {
    if (!(error instanceof PartnerFailure)) throw error;
    if (error.kind === 'absent') return false;
    // It need not know a user nobody has heard of.
    if (error.kind === 'missing' || error.kind === 'invalid') return true;
    throw error;
  }
}

const advice: Partial<Record<PartnerFailureKind, string>> = {
  missing: 'Check dining.baseUrl: it is what comes before /v3/HealthCheck.',
  away: 'Check dining.baseUrl, and the way there.',
  timeout: 'Check dining.baseUrl, and the way there.',
};

function mend(
  { kind, message, facts }: PartnerFailure,
  { passwordSecret, username }: DiningSettings,
): string {
  if (kind !== 'credentials') return `The partner can't be used: ${message}. ${advice[kind] ?? ''}`.trimEnd();
  if (facts.status === undefined) return `${message}: write it there.`;
  return (
    `The partner refuses ${username} (status ${facts.status}): renew the credentials with the partner, who lets them ` +
    `end after six months, and write the password to the secret ${passwordSecret}.`
  );
}
