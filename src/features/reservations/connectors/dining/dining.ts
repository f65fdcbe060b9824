import { type Call, startCall } from '../../../../platform/base/call.ts';
import { randomUUID } from '../../../../platform/base/chance.ts';
import { createHttp } from '../../../../platform/http/http.ts';
import { type ConnectionState, shareProbe } from '../../../../platform/observability/health.ts';
import type { Log } from '../../../../platform/observability/log.ts';
import type { SecretsManager } from '../../../../platform/secrets/secrets-manager.ts';
import type { ReservationMetrics } from '../../metrics.ts';
import type { DiningSettings } from '../../settings.ts';
import type { Connector, TableConnector, TableOrder, TableSlot } from '../connector.ts';
import { type BookingServer, createBookingServer, type Method, methods, partner } from './booking-server.ts';
import { cancel } from './cancel.ts';
import { create } from './create.ts';
import { availabilityOf, availabilityRequest, type DiningPart, listRequest } from './messages.ts';
import { asProblem, PartnerFailure, type PartnerFailureKind } from './partner-failure.ts';
import { createPassword, type Password } from './password.ts';
import { retrieve } from './retrieve.ts';

/**
 * A HealthCheck shows whether the partner answers; all callers share its result for 2 s. Some partners accept it without
 * credentials, so refused credentials of other calls are remembered until they work or are replaced. They are logged for
 * the operator: such credentials live six months, and only a person can renew them.
 */
function createPartnerHealth({
  log,
  password,
  healthCheck,
}: {
  log: Log;
  password: Pick<Password, 'generation'>;
  /** Throws `PartnerFailure`. */
  healthCheck: () => Promise<unknown>;
}) {
  let refused: number | undefined;
  const isRefused = () => refused === password.generation;
  const probe = shareProbe(async () => {
    try {
      await healthCheck();
      return { connected: true };
    } catch (error) {
      if (error instanceof PartnerFailure) return { connected: false };
      throw error;
    }
  });
  return {
    noteOutcome: (method: Method, failure: PartnerFailure | undefined): void => {
      if (failure?.kind === 'credentials') {
        const facts = { partner, operation: method.name, reason: failure.message };
        if (!isRefused())
          log.error(facts, "the dining partner rejects the gateway's credentials; renew them");
        refused = password.generation;
      } else if (method !== methods.healthCheck && acceptedCredentials(failure)) {
        refused = undefined;
      }
    },
    check: async (): Promise<ConnectionState> => {
      const state = await probe();
      return isRefused() ? { connected: false, reason: 'credentials' } : state;
    },
  };
}

function acceptedCredentials(failure: PartnerFailure | undefined): boolean {
  return failure === undefined || ['invalid', 'missing', 'busy', 'absent'].includes(failure.kind);
}

/**
 * Asks for all slots in one call. Partners answer 400 to what they never offer, such as a time outside their opening
 * hours, and then to the whole call: each slot is asked for alone. Throws `PartnerFailure`.
 */
async function areFree(server: BookingServer, slots: readonly TableSlot[], call: Call): Promise<boolean[]> {
  const free = await ask(server, slots, call);
  if (free || slots.length === 1) return free ?? [false];
  return Promise.all(slots.map((slot) => isFree(server, slot, call)));
}

async function isFree(server: BookingServer, slot: TableSlot, call: Call): Promise<boolean> {
  const [free = false] = (await ask(server, [slot], call)) ?? [];
  return free;
}

/** Undefined where the partner does not accept the question. Throws `PartnerFailure`. */
async function ask(
  server: BookingServer,
  slots: readonly TableSlot[],
  call: Call,
): Promise<boolean[] | undefined> {
  const answer = await server
    .sendWithRetries(methods.availability, availabilityRequest(slots), call)
    .catch((error: unknown) => {
      if (error instanceof PartnerFailure && error.kind === 'invalid') return undefined;
      throw error;
    });
  return answer && slots.map((slot) => availabilityIn(answer.body, slot));
}

function availabilityIn(answer: unknown, slot: TableSlot): boolean {
  const available = availabilityOf(answer, slot);
  if (available === undefined) throw new PartnerFailure('broken', 'the answer is about other slots');
  return available;
}

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
    cancel: (reference, order, call) =>
      cancel({ server, log }, { reference, order }, call).catch(throwAsProblem),
    merchants: () => merchants,
    areFree: (slots, call) => areFree(server, slots, call).catch(throwAsProblem),
    checkHealth: () => health.check(),
  };
}

function throwAsProblem(error: unknown): never {
  throw asProblem(error);
}

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
  const password = createPassword({ secrets, name, refreshSeconds: checkMs / 1000 });
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
