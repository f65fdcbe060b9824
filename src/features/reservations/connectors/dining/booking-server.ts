import { type Call, remainingMs, requireLive } from '../../../../platform/base/call.ts';
import { monotonicMs, randomFraction, sleep } from '../../../../platform/base/chance.ts';
import { type Span, traceHeaders } from '../../../../platform/base/span.ts';
import { pauseAfter } from '../../../../platform/base/waiting.ts';
import { type Http, type HttpAnswer, HttpFailure } from '../../../../platform/http/http.ts';
import type { ReservationMetrics } from '../../metrics.ts';
import { failureOfStatus, PartnerFailure } from './partner-failure.ts';
import type { Password } from './password.ts';

export const partner = 'dining';

/**
 * Time limits, in milliseconds. The protocol's own limits for servers are 1.5 s for a look-up and 4 s for a booking;
 * a client with the same limits would only cause unknown outcomes.
 */
const limits = { lookUp: 2000, read: 4000, write: 8000 } as const;
const shortestMs = 500;
const sends = { lookUp: 2, read: 2, write: 3 } as const;
/** Before further sends, in milliseconds, with jitter: from half of it to all of it. */
const pauses = { first: 500, most: 2000, factor: 4 };

export const methods = {
  healthCheck: { name: 'HealthCheck', kind: 'lookUp' },
  availability: { name: 'BatchAvailabilityLookup', kind: 'lookUp' },
  create: { name: 'CreateBooking', kind: 'write' },
  update: { name: 'UpdateBooking', kind: 'write' },
  status: { name: 'GetBookingStatus', kind: 'read' },
  list: { name: 'ListBookings', kind: 'read' },
} as const;
export type Method = (typeof methods)[keyof typeof methods];

export interface BookingServerOptions {
  http: Http;
  baseUrl: string;
  username: string;
  password: Password;
  metrics: ReservationMetrics;
  /** Called at the end of each call; undefined is success. */
  onOutcome(method: Method, failure: PartnerFailure | undefined): void;
}

export function createBookingServer(options: BookingServerOptions) {
  const send = (method: Method, body: string | undefined, call: Call): Promise<unknown> =>
    sendOnce(options, method, body, call);
  return {
    /** One call, without repeats. Throws `PartnerFailure`. */
    send,
    /**
     * Sends the same bytes again after failures that may pass, as often as the method's kind allows and the deadline leaves
     * time for. Throws `PartnerFailure`; its `outcomeUnknown` covers all of the sends.
     */
    sendWithRetries: async (
      method: Method,
      body: string,
      call: Call,
    ): Promise<{
      body: unknown;
      /** A send before the one that was answered may have changed something. */
      earlierOutcomeUnknown: boolean;
    }> => {
      let outcomeUnknown = false;
      for (let sent = 1; ; sent++) {
        try {
          return { body: await send(method, body, call), earlierOutcomeUnknown: outcomeUnknown };
        } catch (error) {
          if (!(error instanceof PartnerFailure)) throw error;
          outcomeUnknown ||= error.facts.outcomeUnknown === true;
          const pauseMs = pauseBeforeRepeat(error, method, sent);
          if (pauseMs === undefined || remainingMs(call) < pauseMs + shortestMs) {
            throw new PartnerFailure(error.kind, error.message, { ...error.facts, outcomeUnknown });
          }
          await sleep(pauseMs);
        }
      }
    },
  };
}

export type BookingServer = ReturnType<typeof createBookingServer>;

/** Milliseconds before the next send; undefined where there must be none. */
function pauseBeforeRepeat(
  { kind, facts }: PartnerFailure,
  { kind: methodKind }: Method,
  sent: number,
): number | undefined {
  // An internal error may be that of one process of the partner: one retry.
  const most = facts.status === 500 ? Math.min(2, sends[methodKind]) : sends[methodKind];
  const mayPass = facts.status === 500 || kind === 'timeout' || kind === 'unreachable' || kind === 'busy';
  if (!mayPass || sent >= most) return undefined;
  const pauseMs = pauseAfter(sent, pauses) * (0.5 + randomFraction() / 2);
  return Math.max(pauseMs, (facts.retryAfter ?? 0) * 1000);
}

async function sendOnce(
  options: BookingServerOptions,
  method: Method,
  body: string | undefined,
  call: Call,
): Promise<unknown> {
  requireLive(call);
  const started = monotonicMs();
  const span = call.span.child('client', `${partner} ${method.name}`, {
    'server.address': new URL(options.baseUrl).hostname,
  });
  let failure: PartnerFailure | undefined;
  try {
    return await sendWithPassword(options, method, body, { ...call, span });
  } catch (error) {
    if (error instanceof PartnerFailure) failure = error;
    throw error;
  } finally {
    const seconds = (monotonicMs() - started) / 1000;
    const outcome = failure?.kind ?? 'ok';
    options.metrics.partnerCallDuration.observe({ partner, operation: method.name, outcome }, seconds);
    span.end(failure?.kind);
    options.onOutcome(method, failure);
  }
}

/** A refused password may have been replaced a moment ago: then the call is sent once more, with the new one. */
async function sendWithPassword(
  options: BookingServerOptions,
  method: Method,
  body: string | undefined,
  call: Call,
): Promise<unknown> {
  const { password } = options;
  const shown = await password.read();
  try {
    return await exchange(options, method, body, call, shown);
  } catch (error) {
    const isRefused = error instanceof PartnerFailure && error.facts.status === 401;
    if (!isRefused || !(await password.isReplaced(shown))) throw error;
    return exchange(options, method, body, call, await password.read());
  }
}

async function exchange(
  { http, baseUrl, username }: BookingServerOptions,
  method: Method,
  body: string | undefined,
  call: Call,
  password: string,
): Promise<unknown> {
  const timeoutMs = Math.min(limits[method.kind], remainingMs(call));
  if (timeoutMs < shortestMs) throw new PartnerFailure('timeout', 'no time was left for the call');
  const isWrite = method.kind === 'write';
  const answer = await http
    .exchange({
      url: `${baseUrl}/v3/${method.name}`,
      method: body === undefined ? 'GET' : 'POST',
      headers: headersOf(username, password, call.span, body !== undefined),
      body,
      timeoutMs,
    })
    .catch((error: unknown) => Promise.reject(asPartnerFailure(error, isWrite)));
  if (answer.status < 200 || answer.status > 299) {
    const { kind, message, facts } = failureOfStatus(answer.status, retryAfterOf(answer));
    const outcomeUnknown = isWrite && facts.outcomeUnknown === true;
    throw new PartnerFailure(kind, message, { ...facts, outcomeUnknown });
  }
  return method === methods.healthCheck ? undefined : parse(answer, isWrite);
}

function headersOf(username: string, password: string, span: Span, hasBody: boolean): Record<string, string> {
  return {
    authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
    accept: 'application/json',
    ...traceHeaders(span),
    ...(hasBody ? { 'content-type': 'application/json; charset=utf-8' } : {}),
  };
}

function asPartnerFailure(error: unknown, isWrite: boolean): unknown {
  if (!(error instanceof HttpFailure)) return error;
  const outcomeUnknown = isWrite && error.kind !== 'unreachable';
  const kinds = {
    unreachable: 'unreachable',
    timeout: 'timeout',
    lost: 'unreachable',
    unreadable: 'broken',
  } as const;
  return new PartnerFailure(kinds[error.kind], error.message, { outcomeUnknown });
}

/** The outcome of a successful write whose body is no JSON is unknown. */
function parse({ body, status }: HttpAnswer, isWrite: boolean): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new PartnerFailure('broken', `an answer with status ${status} is no JSON`, {
      status,
      outcomeUnknown: isWrite,
    });
  }
}

/** Seconds; dates are ignored. */
function retryAfterOf({ headers }: HttpAnswer): number | undefined {
  const value = headers['retry-after'];
  return typeof value === 'string' && /^\d{1,5}$/.test(value) ? Number(value) : undefined;
}
