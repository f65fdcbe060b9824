import { setTimeout as delay } from 'node:timers/promises';
import type { ArmedFaults, StruckFault } from '../../shared/armed-faults.ts';
import type { HttpAnswer, HttpCall } from '../../shared/exchange.ts';
import type { Credentials } from '../control/control.ts';
import type { FaultEffect, FaultInput, FaultKind } from '../control/fault-input.ts';
import { ProtocolError } from '../protocol/protocol-error.ts';
import type { Quirk } from '../protocol/quirks.ts';
import { readMessage } from '../protocol/read-message.ts';
import { type Method, requests } from '../protocol/shapes.ts';
import { writeMessage } from '../protocol/write-message.ts';
import { Failure } from '../restaurant/failures.ts';
import type { createRestaurant } from '../restaurant/restaurant.ts';
import type { Settings } from '../restaurant/settings.ts';

export interface PipelineParts {
  restaurant: ReturnType<typeof createRestaurant>;
  settings: Settings;
  faults: ArmedFaults<FaultInput>;
  credentials: Credentials;
  /** Ends every wait when the simulator closes. */
  closing: AbortSignal;
}

/** Answers a call; undefined where none may be given and the connection must break. */
export type Pipeline = (call: HttpCall, method: Method | undefined) => Promise<HttpAnswer | undefined>;

const EDGE: ReadonlySet<FaultKind> = new Set(['hang', 'reset']);
const AROUND: ReadonlySet<FaultKind> = new Set([
  'error',
  'failure',
  'answer',
  'hold',
  'loseAnswer',
  'lateAnswer',
]);

/** Methods that some partners do not have. */
const MISSING: Partial<Record<Method, readonly Quirk[]>> = {
  GetBookingStatus: ['noGetBookingStatus'],
  ListBookings: ['noListBookings'],
};

/** What a path asks for: with or without a folder before it, a slash behind it, and capitals. */
export function methodOf(pathname: string): Method | undefined {
  const name = /\/v3\/(\w+)\/?$/i.exec(pathname)?.[1]?.toLowerCase();
  return (Object.keys(requests) as Method[]).find((method) => method.toLowerCase() === name);
}

/** Takes a call through the armed faults and the check of its credentials to its work. */
export function createPipeline(parts: PipelineParts): Pipeline {
  const { faults, settings, closing } = parts;
  const pause = (ms: number): Promise<unknown> =>
    ms > 0 ? delay(ms, undefined, { signal: closing }) : Promise.resolve();

  const letRun = async (struck: StruckFault<FaultInput>, run: () => HttpAnswer): Promise<HttpAnswer> => {
    const effect: FaultEffect = struck.effect;
    const isHeld = effect.kind === 'hold';
    if (isHeld && stageOf(effect) === 'before') await struck.hold();
    const answer = run();
    if (isHeld && stageOf(effect) === 'after') await struck.hold();
    if (effect.kind === 'lateAnswer') await pause(effect.ms);
    return answer;
  };

  const answerAround = async (
    struck: StruckFault<FaultInput> | undefined,
    run: () => HttpAnswer,
  ): Promise<HttpAnswer | undefined> => {
    if (struck === undefined) return run();
    const planned = plannedAnswer(struck.effect, settings);
    if (planned !== undefined && stageOf(struck.effect) === 'before') return planned;
    const answer = await letRun(struck, run);
    return struck.effect.kind === 'loseAnswer' ? undefined : (planned ?? answer);
  };

  return async (call, method) => {
    const matches = ({ match }: FaultInput): boolean =>
      (match.operation === undefined || match.operation === method) &&
      (match.body === undefined || call.body.includes(match.body));
    const strike = (kinds: ReadonlySet<string>) =>
      faults.strike((fault) => kinds.has(fault.effect.kind) && matches(fault));
    await pause(faults.latency(matches) + settings.latencyMs);
    const edge = strike(EDGE)?.effect.kind;
    if (edge === 'reset') return undefined;
    // Never settles: the caller's own time-out, or the end of the simulator, ends the connection.
    if (edge === 'hang') return new Promise<undefined>(() => undefined);
    try {
      checkCredentials(parts, call, method);
      return await answerAround(strike(AROUND), () => work(parts, call, method));
    } catch (error) {
      return errorAnswer(error, settings);
    }
  };
}

/** A hold and an error may stand before the work or after it; everything else that replaces it, before. */
function stageOf(effect: FaultEffect): 'before' | 'after' {
  if (effect.kind === 'hold') return effect.stage ?? 'after';
  return effect.kind === 'error' ? (effect.stage ?? 'before') : 'before';
}

function plannedAnswer(effect: FaultEffect, settings: Settings): HttpAnswer | undefined {
  switch (effect.kind) {
    case 'error': {
      const answer = errorAnswer(new ProtocolError(effect.status, effect.message ?? 'armed'), settings);
      if (effect.retryAfter !== undefined) answer.headers['Retry-After'] = String(effect.retryAfter);
      return answer;
    }
    case 'failure':
      return failureAnswer(new Failure(effect.cause, effect.description ?? 'armed'), settings);
    case 'answer': {
      const headers = { 'Content-Type': effect.contentType ?? 'application/json' };
      return { status: effect.status, headers, body: effect.body };
    }
    default:
      return undefined;
  }
}

function checkCredentials({ credentials, settings }: PipelineParts, call: HttpCall, method?: Method): void {
  if (method === 'HealthCheck' && settings.quirks.includes('openHealthCheck')) return;
  const { username, password } = credentials;
  const expected = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  if (call.headers.authorization !== expected) throw new ProtocolError(401, 'wrong credentials');
}

function work({ restaurant, settings }: PipelineParts, call: HttpCall, method?: Method): HttpAnswer {
  if (method === undefined || call.method !== (method === 'HealthCheck' ? 'GET' : 'POST')) {
    throw new ProtocolError(404, 'no such method');
  }
  const { quirks } = settings;
  if (MISSING[method]?.some((quirk) => quirks.includes(quirk))) {
    throw new ProtocolError(501, `${method} is not implemented`);
  }
  try {
    const request = method === 'HealthCheck' ? {} : readMessage(requests[method], parseBody(call));
    const answer = restaurant[method](request, call.body);
    return jsonAnswer(200, writeMessage(answer, quirks));
  } catch (error) {
    if (error instanceof Failure) return failureAnswer(error, settings);
    throw error;
  }
}

function parseBody({ headers, body }: HttpCall): unknown {
  if (!/^application\/json\b/i.test(headers['content-type'] ?? '')) {
    throw new ProtocolError(415, 'Content-Type must be application/json');
  }
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new ProtocolError(400, 'the body is not JSON');
  }
}

function jsonAnswer(status: number, body: string): HttpAnswer {
  return { status, headers: { 'Content-Type': 'application/json; charset=UTF-8' }, body };
}

function failureAnswer({ cause, message }: Failure, { quirks }: Settings): HttpAnswer {
  const shown = quirks.includes('inventedCauses') ? `HOUSE_RULE_${cause}` : cause;
  return jsonAnswer(200, writeMessage({ booking_failure: { cause: shown, description: message } }, quirks));
}

function errorAnswer(error: unknown, { quirks }: Settings): HttpAnswer {
  if (!(error instanceof ProtocolError)) throw error;
  const { status, message } = error;
  if (quirks.includes('textErrors'))
    return { status, headers: { 'Content-Type': 'text/plain' }, body: message };
  return jsonAnswer(
    status,
    JSON.stringify({ statusCode: status, statusDescription: 'ERROR', errorMessage: message }),
  );
}
