import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Activity } from './activity.ts';
import type { ArmedFaults, FaultBase } from './armed-faults.ts';
import { ControlError } from './control-error.ts';
import { type HttpAnswer, type HttpCall, jsonAnswer } from './exchange.ts';

/** Answers `/simulator/…`. */
export type ControlHandler = (
  call: HttpCall,
  request: IncomingMessage,
  response: ServerResponse,
) => Promise<HttpAnswer>;

export interface ControlCall {
  method: string;
  /** Behind `/simulator/`, decoded. */
  path: string[];
  query: URLSearchParams;
  body: unknown;
  /** Aborted when the waiting time is over or the caller has gone. */
  signal: AbortSignal;
}

/** By method and path, as `GET faults/*`; each may answer with a promise. */
export type Handlers<Parts> = Record<string, (parts: Parts, call: ControlCall) => unknown>;

/** What every simulator has: faults to arm, and calls to wait for. */
export interface CommonParts<Fault extends FaultBase> {
  faults: Omit<ArmedFaults<Fault>, 'strike' | 'latency'>;
  activity: Activity;
  /** Ends every wait when the simulator closes. */
  closing: AbortSignal;
}

const DEFAULT_WAIT_MS = 30_000;
const LONGEST_WAIT_MS = 600_000;

function countOf(call: ControlCall): number {
  const count = Number(call.query.get('count') ?? 1);
  if (!Number.isInteger(count) || count < 1)
    throw new ControlError(400, 'count must be a number of at least 1');
  return count;
}

/** Whether an object has the values that the query of a call names; all objects have where it names none. */
export function hasValues(object: object, { query }: ControlCall): boolean {
  const values = object as Record<string, string | number | null | undefined>;
  return [...query].every(([name, value]) => name === 'timeoutMs' || String(values[name] ?? '') === value);
}

/** The paths of faults, waits and counters. @param readFault throws `ControlError` for what is no fault. */
export function commonHandlers<Fault extends FaultBase>(
  readFault: (body: unknown) => Fault,
): Handlers<CommonParts<Fault>> {
  return {
    'GET faults': ({ faults }) => faults.list(),
    'POST faults': ({ faults }, { body }) => faults.arm(readFault(body)),
    'DELETE faults': ({ faults }) => {
      faults.clear();
      return {};
    },
    'DELETE faults/*': ({ faults }, { path }) => {
      faults.remove(path[1] ?? '');
      return {};
    },
    'POST faults/*/release': ({ faults }, { path }) => ({ released: faults.release(path[1] ?? '') }),
    'GET faults/*/await': ({ faults }, call) =>
      faults.whenHit(call.path[1] ?? '', countOf(call), call.signal),
    'GET await': async ({ activity }, call) => {
      const operation = call.query.get('operation');
      if (operation === null) throw new ControlError(400, 'operation is required');
      return { operation, count: await activity.whenArrived(operation, countOf(call), call.signal) };
    },
    'GET counters': ({ activity }) => activity.view(),
    'POST counters/reset': ({ activity }) => {
      activity.reset();
      return {};
    },
  };
}

function parseJson(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch {
    throw new ControlError(400, 'the body is not valid JSON');
  }
}

function waitingSignal(call: HttpCall, response: ServerResponse, closing: AbortSignal): AbortSignal {
  const wanted = Number(call.query.get('timeoutMs') ?? DEFAULT_WAIT_MS);
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const limit = AbortSignal.timeout(Math.min(Math.max(1, wanted || DEFAULT_WAIT_MS), LONGEST_WAIT_MS));
  return AbortSignal.any([limit, gone.signal, closing]);
}

function findHandler<Parts>(handlers: Handlers<Parts>, method: string, path: string[]) {
  // The second segment is a name or an id: one pattern stands for all of them.
  const pattern = path.map((segment, index) => (index === 1 ? '*' : segment)).join('/');
  const handler = handlers[`${method} ${path.join('/')}`] ?? handlers[`${method} ${pattern}`];
  if (handler === undefined) throw new ControlError(404, 'no such control path');
  return handler;
}

function isLoopback(request: IncomingMessage): boolean {
  const address = request.socket.remoteAddress ?? '';
  return address === '::1' || /^(::ffff:)?127\./.test(address);
}

/** An error that names its status, such as one of the simulated API, is the caller's. */
function toAnswer(error: unknown): HttpAnswer {
  if (!(error instanceof Error && 'status' in error && typeof error.status === 'number')) throw error;
  const errorCode = 'errorCode' in error ? error.errorCode : undefined;
  return jsonAnswer(error.status, { error: error.message, errorCode });
}

/** The control API: for programs on this machine only, and not for pages in its browser. */
export function createControlApi<Parts extends { closing: AbortSignal }>(
  parts: Parts,
  handlers: Handlers<Parts>,
): ControlHandler {
  return async (call, request, response) => {
    try {
      if (!isLoopback(request) || request.headers.origin !== undefined) {
        throw new ControlError(403, 'the control API answers programs on this machine only');
      }
      const path = call.pathname.split('/').slice(2).map(decodeURIComponent);
      const handler = findHandler(handlers, call.method, path);
      const signal = waitingSignal(call, response, parts.closing);
      const control = { method: call.method, path, query: call.query, body: parseJson(call.body), signal };
      return jsonAnswer(200, await handler(parts, control));
    } catch (error) {
      return toAnswer(error);
    }
  };
}
