import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Activity } from '../control/activity.ts';
import type { Gate } from '../control/gate.ts';
import { ApiError } from '../org/api-error.ts';
import { isDataPath } from './data-endpoint.ts';
import { edgeAnswer, type HttpAnswer, type HttpCall, jsonAnswer, readBody, sendAnswer } from './exchange.ts';
import { operationOf, type Pipeline } from './pipeline.ts';

export interface ServerParts {
  pipeline: Pipeline;
  activity: Activity;
  gate: Gate;
  /** Answers `/simulator/…`; such calls are neither counted nor struck by faults. */
  control(call: HttpCall, request: IncomingMessage, response: ServerResponse): Promise<HttpAnswer>;
}

/** URI, and URI with headers, are limited to this many bytes each (Status Codes and Error Responses). */
const MAX_HEAD_BYTES = 16_384;
/** Node's own limit must lie above the one that is simulated, or it would answer first. */
const NODE_HEADER_LIMIT = 128 * 1024;
const MAX_LOGGED_PATH = 2000;
/** Longer than any client keeps an idle connection, so that no request meets a connection just being closed. */
const KEEP_ALIVE_MS = 120_000;

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
    return jsonAnswer(error.status, error.toBody());
  }
}

export function createHttpServer(parts: ServerParts): Server {
  const note = (request: IncomingMessage, response: ServerResponse, url: URL, operation: string): void => {
    const record = parts.activity.arrive({
      method: request.method ?? 'GET',
      path: loggedPath(url),
      operation,
    });
    response.once('close', () => {
      record.status = response.writableFinished ? response.statusCode : 0;
    });
  };

  const finish = async (
    request: IncomingMessage,
    response: ServerResponse,
    answer: HttpAnswer | undefined,
  ): Promise<void> => {
    if (answer === undefined) request.socket.resetAndDestroy();
    else await sendAnswer(request, response, answer);
  };

  const serveApi = async (
    request: IncomingMessage,
    response: ServerResponse,
    url: URL,
    call: HttpCall,
  ): Promise<void> => {
    const operation = operationOf(call);
    note(request, response, url, operation.name);
    if (!isDataPath(call.pathname)) {
      await finish(request, response, await parts.pipeline.answer(call, operation));
      return;
    }
    response.once('close', parts.activity.enter());
    const leave = await parts.gate.enter();
    if (response.closed) leave();
    else response.once('close', leave);
    await finish(request, response, await parts.pipeline.answer(call, operation));
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = URL.parse(request.url ?? '/', 'http://simulator');
    if (url === null) {
      await sendAnswer(request, response, edgeAnswer(400, 'Bad Request'));
      return;
    }
    const isControl = url.pathname.startsWith('/simulator/');
    const refusal = isControl ? undefined : headTooLarge(request);
    const call = refusal ?? (await readCall(request, url));
    if ('status' in call) {
      note(request, response, url, 'unknown');
      await sendAnswer(request, response, call);
    } else if (isControl) {
      await sendAnswer(request, response, await parts.control(call, request, response));
    } else {
      await serveApi(request, response, url, call);
    }
  };

  const server = createServer(
    { maxHeaderSize: NODE_HEADER_LIMIT, keepAliveTimeout: KEEP_ALIVE_MS },
    (request, response) => {
      // A caller that goes away mid-body, or a wait ended by closing, leaves nobody to answer.
      serve(request, response).catch((error: unknown) => {
        if (!request.destroyed && !response.headersSent && !isAbort(error)) reportBug(error);
        response.destroy();
      });
    },
  );
  server.headersTimeout = KEEP_ALIVE_MS + 1000;
  return server;
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

function reportBug(error: unknown): void {
  console.error('simulated Salesforce org:', error);
}
