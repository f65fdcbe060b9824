import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Activity } from '../../shared/activity.ts';
import type { ControlHandler } from '../../shared/control-api.ts';
import { type HttpAnswer, type HttpCall, jsonAnswer, sendAnswer } from '../../shared/exchange.ts';
import { createSimulatorServer } from '../../shared/server.ts';
import type { Gate } from '../control/gate.ts';
import { edgeAnswer, readBody } from '../exchange.ts';
import { ApiError } from '../org/api-error.ts';
import { isDataPath } from './data-endpoint.ts';
import { operationOf, type Pipeline } from './pipeline.ts';

export interface ServerParts {
  pipeline: Pipeline;
  activity: Activity;
  gate: Gate;
  /** Answers `/simulator/…`; such calls are neither counted nor struck by faults. */
  control: ControlHandler;
}

/** URI, and URI with headers, are limited to this many bytes each (Status Codes and Error Responses). */
const MAX_HEAD_BYTES = 16_384;
/** Node's own limit must lie above the one that is simulated, or it would answer first. */
const NODE_HEADER_LIMIT = 128 * 1024;
const MAX_LOGGED_PATH = 2000;

function headTooLarge(request: IncomingMessage): HttpAnswer | undefined {
  const uri = Buffer.byteLength(request.url ?? '');
  if (uri > MAX_HEAD_BYTES) return edgeAnswer(414, 'URI Too Long');
  let total = uri;
  for (const part of request.rawHeaders) total += part.length + 2;
  return total > MAX_HEAD_BYTES ? edgeAnswer(431, 'Request Header Fields Too Large') : undefined;
}

function toHttpCall(request: IncomingMessage, url: URL, body: Buffer): HttpCall {
  return {
    method: request.method ?? 'GET',
    pathname: url.pathname.length > 1 ? url.pathname.replace(/\/$/, '') : url.pathname,
    query: url.searchParams,
    headers: request.headers,
    body,
  };
}

/** Login paths may carry a token in their query, and `oauth_token` may stand in any. */
function loggedPath(url: URL): string {
  const shown =
    isDataPath(url.pathname) && !url.searchParams.has('oauth_token')
      ? url.pathname + url.search
      : url.pathname;
  return shown.slice(0, MAX_LOGGED_PATH);
}

async function readCall(request: IncomingMessage, url: URL): Promise<HttpCall | HttpAnswer> {
  try {
    return toHttpCall(request, url, await readBody(request));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return jsonAnswer(error.status, error.toBody('en'));
  }
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
}

function note(parts: ServerParts, { request, response, url }: Exchange, operation: string): void {
  const path = loggedPath(url);
  const record = parts.activity.arrive({ method: request.method ?? 'GET', path, operation });
  response.once('close', () => {
    record.status = response.writableFinished ? response.statusCode : 0;
  });
}

/** Waits for a slot for the call; it is released when the connection or the answer ends. */
async function takeSlot(parts: ServerParts, response: ServerResponse): Promise<void> {
  response.once('close', parts.activity.enter());
  const leave = await parts.gate.enter();
  if (response.closed) leave();
  else response.once('close', leave);
}

async function serveApi(parts: ServerParts, exchange: Exchange, call: HttpCall): Promise<void> {
  const { request, response } = exchange;
  const operation = operationOf(call);
  note(parts, exchange, operation.name);
  if (isDataPath(call.pathname)) await takeSlot(parts, response);
  const answer = await parts.pipeline.answer(call, operation);
  if (answer === undefined) request.socket.resetAndDestroy();
  else await sendAnswer(request, response, answer);
}

async function serve(parts: ServerParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = URL.parse(request.url ?? '/', 'http://simulator');
  if (url === null) {
    await sendAnswer(request, response, edgeAnswer(400, 'Bad Request'));
    return;
  }
  const isControl = url.pathname.startsWith('/simulator/');
  const refusal = isControl ? undefined : headTooLarge(request);
  const call = refusal ?? (await readCall(request, url));
  if ('status' in call) {
    note(parts, { request, response, url }, 'unknown');
    await sendAnswer(request, response, call);
  } else if (isControl) {
    await sendAnswer(request, response, await parts.control(call, request, response));
  } else {
    await serveApi(parts, { request, response, url }, call);
  }
}

/** The HTTP side of the org; the caller starts and stops it. */
export function createHttpServer(parts: ServerParts): Server {
  const options = { maxHeaderSize: NODE_HEADER_LIMIT };
  return createSimulatorServer('simulated Salesforce org', options, (...exchange) =>
    serve(parts, ...exchange),
  );
}
