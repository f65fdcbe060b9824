import type { IncomingMessage, ServerResponse } from 'node:http';
import { type HttpAnswer, type HttpCall, jsonAnswer } from '../exchange.ts';
import type { Sessions } from '../oauth/sessions.ts';
import { ApiError } from '../org/api-error.ts';
import { insertRow } from '../org/dml.ts';
import { isPlainObject } from '../org/interpret.ts';
import type { Org } from '../org/org.ts';
import { type ObjectType, type Row, readField } from '../org/schema.ts';
import type { Activity } from './activity.ts';
import { ControlError, readFaultInput } from './fault-input.ts';
import type { Faults } from './faults.ts';
import { changeSettings, type Settings } from './settings.ts';

export interface ControlParts {
  org: Org;
  faults: Faults;
  activity: Activity;
  sessions: Sessions;
  settings: Settings;
  /** Ends every wait when the simulator closes. */
  closing: AbortSignal;
  onSettings(): void;
  /** Back to the state of the start; `records: false` keeps the records. */
  reset(records: boolean): void;
}

export type ControlHandler = (
  call: HttpCall,
  request: IncomingMessage,
  response: ServerResponse,
) => Promise<HttpAnswer>;

interface ControlCall {
  method: string;
  path: string[];
  query: URLSearchParams;
  body: unknown;
  /** Aborted when the waiting time is over or the caller has gone. */
  signal: AbortSignal;
}

/** May answer with a promise. */
type Handler = (parts: ControlParts, call: ControlCall) => unknown;

const DEFAULT_WAIT_MS = 30_000;
const LONGEST_WAIT_MS = 600_000;

function typeOf(parts: ControlParts, call: ControlCall): ObjectType {
  const type = parts.org.schema.find(call.path[1] ?? '');
  if (type === undefined) throw new ControlError(404, `no object ${call.path[1]}`);
  return type;
}

function countOf(call: ControlCall): number {
  const count = Number(call.query.get('count') ?? 1);
  if (!Number.isInteger(count) || count < 1)
    throw new ControlError(400, 'count must be a number of at least 1');
  return count;
}

function showRow(type: ObjectType, row: Row): object {
  const fields = [...type.fields.values()].map((field) => [field.name, readField(row, field) ?? null]);
  return Object.fromEntries(fields) as object;
}

/** The rows that have the values of the query; all of them without one. */
function matchingRows(parts: ControlParts, call: ControlCall, type: ObjectType): Row[] {
  const wanted = [...call.query].filter(([name]) => name !== 'timeoutMs');
  const rows = [...parts.org.store.table(type).rows.values()];
  return rows.filter((row) => wanted.every(([name, value]) => String(row[name] ?? '') === value));
}

function listRecords(parts: ControlParts, call: ControlCall): object[] {
  const type = typeOf(parts, call);
  return matchingRows(parts, call, type).map((row) => showRow(type, row));
}

/** Raw: system fields such as CreatedDate may be given too. All of them or none are written. */
function insertRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const bodies: unknown[] = [call.body].flat();
  const ids = parts.org.store.transaction(() =>
    bodies.map((body) => {
      if (!isPlainObject(body)) throw new ControlError(400, 'each record must be a JSON object');
      return insertRow(parts.org, type, body, { raw: true }).Id;
    }),
  );
  return { ids };
}

function deleteRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const rows = matchingRows(parts, call, type);
  parts.org.store.transaction(() => {
    for (const row of rows) parts.org.store.write(type, row, undefined);
  });
  return { deleted: rows.length };
}

function reset(parts: ControlParts, call: ControlCall): object {
  parts.reset(!(isPlainObject(call.body) && call.body.records === false));
  return {};
}

function settings(parts: ControlParts, call: ControlCall): object {
  changeSettings(parts.settings, call.body);
  parts.onSettings();
  return parts.settings;
}

function removeFault(parts: ControlParts, call: ControlCall): object {
  if (call.path[1] === undefined) parts.faults.clear();
  else parts.faults.remove(call.path[1]);
  return {};
}

async function awaitCalls(parts: ControlParts, call: ControlCall): Promise<object> {
  const operation = call.query.get('operation');
  if (operation === null) throw new ControlError(400, 'operation is required');
  return { operation, count: await parts.activity.whenArrived(operation, countOf(call), call.signal) };
}

const HANDLERS: Record<string, Handler> = {
  'GET faults': (parts) => parts.faults.list(),
  'POST faults': (parts, call) => parts.faults.arm(readFaultInput(call.body)),
  'DELETE faults': removeFault,
  'DELETE faults/*': removeFault,
  'POST faults/*/release': (parts, call) => ({ released: parts.faults.release(call.path[1] ?? '') }),
  'GET faults/*/await': (parts, call) => parts.faults.whenHit(call.path[1] ?? '', countOf(call), call.signal),
  'GET await': awaitCalls,
  'POST tokens/revoke': (parts) => ({ revoked: parts.sessions.revokeAll() }),
  'POST reset': reset,
  'GET settings': (parts) => parts.settings,
  'POST settings': settings,
  'PATCH settings': settings,
  'GET counters': (parts) => ({ ...parts.activity.view(), tokens: parts.sessions.count() }),
  'POST counters/reset': (parts) => {
    parts.activity.reset();
    return {};
  },
  'GET records/*': listRecords,
  'POST records/*': insertRecords,
  'DELETE records/*': deleteRecords,
};

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

function findHandler(method: string, path: string[]): Handler {
  // The second segment is a name or an id: one pattern stands for all of them.
  const pattern = path.map((segment, index) => (index === 1 ? '*' : segment)).join('/');
  const handler = HANDLERS[`${method} ${path.join('/')}`] ?? HANDLERS[`${method} ${pattern}`];
  if (handler === undefined) throw new ControlError(404, 'no such control path');
  return handler;
}

function isLoopback(request: IncomingMessage): boolean {
  const address = request.socket.remoteAddress ?? '';
  return address === '::1' || /^(::ffff:)?127\./.test(address);
}

function toAnswer(error: unknown): HttpAnswer {
  if (error instanceof ControlError) return jsonAnswer(error.status, { error: error.message });
  if (error instanceof ApiError)
    return jsonAnswer(error.status, { error: error.message, errorCode: error.errorCode });
  throw error;
}

/**
 * Answers `/simulator/…`, by which tests steer the org and look into it. No part of Salesforce: for programs on this
 * machine only, and not for pages in its browser.
 */
export function createControl(parts: ControlParts): ControlHandler {
  return async (call, request, response) => {
    try {
      if (!isLoopback(request) || request.headers.origin !== undefined) {
        throw new ControlError(403, 'the control API answers programs on this machine only');
      }
      const path = call.pathname.split('/').slice(2).map(decodeURIComponent);
      const handler = findHandler(call.method, path);
      const signal = waitingSignal(call, response, parts.closing);
      const control = { method: call.method, path, query: call.query, body: parseJson(call.body), signal };
      return jsonAnswer(200, await handler(parts, control));
    } catch (error) {
      return toAnswer(error);
    }
  };
}
