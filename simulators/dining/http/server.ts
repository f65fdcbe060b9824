import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Activity } from '../../shared/activity.ts';
import type { ControlHandler } from '../../shared/control-api.ts';
import { type HttpCall, readRaw, sendAnswer } from '../../shared/exchange.ts';
import { createSimulatorServer } from '../../shared/server.ts';
import { methodOf, type Pipeline } from './pipeline.ts';

export interface ServerParts {
  pipeline: Pipeline;
  activity: Activity;
  /** Answers `/simulator/…`; such calls are neither counted nor struck by faults. */
  control: ControlHandler;
}

const MAX_BODY = 1024 * 1024;
const TOO_LARGE = { status: 413, headers: { 'Content-Type': 'text/plain' }, body: 'too large' };

async function serveProtocol(
  { pipeline, activity }: ServerParts,
  call: HttpCall,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const method = methodOf(call.pathname);
  const path = call.pathname.slice(0, 2000);
  const record = activity.arrive({ method: call.method, path, operation: method ?? 'unknown' });
  const leave = activity.enter();
  response.once('close', () => {
    leave();
    record.status = response.writableFinished ? response.statusCode : 0;
  });
  const answer = await pipeline(call, method);
  if (answer === undefined) request.socket.resetAndDestroy();
  else await sendAnswer(request, response, answer);
}

async function serve(parts: ServerParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://simulator');
  const body = await readRaw(request, MAX_BODY);
  if (body === undefined) return sendAnswer(request, response, TOO_LARGE);
  const call = { method: request.method ?? 'GET', pathname, query, headers: request.headers, body };
  if (!pathname.startsWith('/simulator/')) return serveProtocol(parts, call, request, response);
  await sendAnswer(request, response, await parts.control(call, request, response));
}

/** The HTTP side of the partner; the caller starts and stops it. */
export function createHttpServer(parts: ServerParts): Server {
  return createSimulatorServer('simulated dining partner', {}, (...exchange) => serve(parts, ...exchange));
}
