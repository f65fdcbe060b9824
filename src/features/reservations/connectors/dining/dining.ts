import { type Call, startCall } from '../../../../platform/base/call.ts';
import { Problem } from '../../../../platform/base/problem.ts';
import { createHttp } from '../../../../platform/http/http.ts';
import { type ConnectionState, shareProbe } from '../../../../platform/observability/health.ts';
import type { Log } from '../../../../platform/observability/log.ts';
import type { SecretsManager } from '../../../../platform/secrets/secrets-manager.ts';
import type { ReservationMetrics } from '../../metrics.ts';
import type { DiningSettings } from '../../settings.ts';
import type { Connector, TableConnector, TableOrder, TableSlot } from '../connector.ts';
import { type BookingServer, createBookingServer, type Method, methods, partner } from './booking-server.ts';
import { create } from './create.ts';
import {
  availabilityOf,
  availabilityRequest,
  cancelRequest,
  type DiningPart,
  partStatus,
  readReply,
} from './messages.ts';
import { asProblem, PartnerFailure } from './partner-failure.ts';
import { createPassword, type Password } from './password.ts';
import { retrieve, statusOf } from './retrieve.ts';

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
    cancel: (reference, call) => cancel({ server, log }, reference, call).catch(throwAsProblem),
    merchants: () => merchants,
    areFree: (slots, call) => areFree(server, slots, call).catch(throwAsProblem),
    checkHealth: () => health.check(),
  };
}

function throwAsProblem(error: unknown): never {
  throw asProblem(error);
}

const unknownBooking = ['BOOKING_NOT_FOUND'];

/** UpdateBooking with the status CANCELED, which is safe to repeat. Throws `PartnerFailure`, and `Problem` for a refusal. */
async function cancel(
  { server, log }: { server: BookingServer; log: Log },
  reference: string,
  call: Call,
): Promise<void> {
  const result = await send(server, reference, call);
  if (typeof result === 'string') return confirm(server, reference, result, call);
  const { cause, description } = result;
  if (cause === undefined || cause === 'BOOKING_ALREADY_CANCELLED') return;
  log.debug(
    { partner, request_id: call.requestId, cause, description },
    'the partner refuses a cancellation',
  );
  throw new Problem('conflict', `The dining partner refuses to cancel the table: ${cause}.`, {
    partnerCause: cause,
  });
}

/** `unclear`: neither a cancelled booking nor a refusal. `not found`: the partner does not know the booking. */
type CancelResult = { cause: string | undefined; description?: string | undefined } | 'unclear' | 'not found';

/** Throws `PartnerFailure`. */
async function send(server: BookingServer, reference: string, call: Call): Promise<CancelResult> {
  try {
    const { body } = await server.sendWithRetries(methods.update, cancelRequest(reference), call);
    const reply = readReply(body);
    if (reply === undefined) return 'unclear';
    if ('cause' in reply) return unknownBooking.includes(reply.cause) ? 'not found' : reply;
    return partStatus(reply.booking.status) === 'cancelled' ? { cause: undefined } : 'unclear';
  } catch (error) {
    const kind = error instanceof PartnerFailure ? error.kind : undefined;
    if (kind === 'missing' || kind === 'invalid') return 'not found';
    throw error;
  }
}

/**
 * Reads the booking's status. Where there is none either, the partner does not know the booking, provided that its
 * address is right: UpdateBooking is mandatory, so a HealthCheck there proves that.
 */
async function confirm(
  server: BookingServer,
  reference: string,
  answer: 'unclear' | 'not found',
  call: Call,
): Promise<void> {
  const status = await statusOf(server, reference, call).catch((error: unknown) => {
    if (!(error instanceof PartnerFailure)) throw error;
    throw new PartnerFailure(error.kind, error.message, { ...error.facts, outcomeUnknown: true });
  });
  if (status === 'cancelled') return;
  if (status !== undefined || answer === 'unclear') {
    throw new PartnerFailure('broken', 'the booking may stand after it was cancelled', {
      outcomeUnknown: true,
    });
  }
  await server.send(methods.healthCheck, undefined, call);
}
