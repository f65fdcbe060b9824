import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Problem } from '../../platform/base/problem.ts';
import type { Connections } from '../connections/lingering-close.ts';
import type { Route } from '../route.ts';
import { bodyTooLarge, formType, maxBodyBytes, wrongMediaType } from './framework-errors.ts';
import { readBytes } from './read-bytes.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyRequest {
    bodyBytes: Buffer | undefined;
    bodyText: string;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

const none = Buffer.alloc(0);

/** The body's bytes as they were sent; none where there is no body. */
export function bytesOf({ bodyBytes }: FastifyRequest): Buffer {
  return bodyBytes ?? none;
}

/**
 * Reads JSON bodies, and forms where a route takes one, keeping their bytes and text; every other content type is refused by
 * the framework. `timeoutMs`: how long a body may take to come.
 */
export function readBodies(app: FastifyInstance, connections: Connections, timeoutMs: number): void {
  app.decorateRequest('bodyText', '');
  app.decorateRequest('bodyBytes');
  app.removeAllContentTypeParsers();
  const read = async (request: FastifyRequest, message: IncomingMessage) => {
    const { bodyLimit } = request.routeOptions;
    const announced = Number(request.headers['content-length'] ?? 0);
    if (announced > bodyLimit) throw bodyTooLarge(bodyLimit);
    connections.askForBody(message);
    request.bodyBytes = await readBytes(message, { announced, limit: bodyLimit, timeoutMs });
  };
  app.addContentTypeParser('application/json', async (request: FastifyRequest, message: IncomingMessage) => {
    const { isSigned, takesForm } = request.routeOptions.config;
    if (takesForm) throw wrongMediaType(true);
    await read(request, message);
    return isSigned ? undefined : readBody(request);
  });
  app.addContentTypeParser(formType, async (request: FastifyRequest, message: IncomingMessage) => {
    if (!request.routeOptions.config.takesForm) throw wrongMediaType(false);
    await read(request, message);
  });
}

/** The bytes of the body as text and as the value that it is; undefined where there is none. Throws `malformed_json`. */
export function readBody(request: FastifyRequest): unknown {
  const bytes = bytesOf(request);
  request.bodyText = decode(bytes);
  return bytes.length === 0 ? undefined : parse(request.bodyText);
}

export function bodySteps({ request: { body }, bodyOptional }: Route): {
  onRequest: Step[];
  preValidation: Step;
} {
  if (body === undefined) return { onRequest: [forgetTypeOfEmptyBody], preValidation: refuseBody };
  if (bodyOptional) return { onRequest: [forgetTypeOfEmptyBody], preValidation: emptyForNone };
  return { onRequest: [], preValidation: requireBody };
}

/**
 * Whether so much of a body may be unread that the connection is closed: to use it again, the rest would have to be read
 * first.
 */
export function leavesMuchUnread({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxBodyBytes;
}

function forgetTypeOfEmptyBody({ headers }: FastifyRequest): void {
  const isEmpty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
  if (isEmpty) delete headers['content-type'];
}

/** A body that the route can't use is refused, not ignored: its sender expects an effect. */
function refuseBody({ body }: FastifyRequest): void {
  if (body === undefined) return;
  throw new Problem('invalid_request', 'This operation takes no body; leave it out.', {
    errors: [{ pointer: '#', message: 'is not known; leave it out' }],
  });
}

function emptyForNone(request: FastifyRequest): void {
  if (request.body === undefined) request.body = {};
}

function requireBody({ body }: FastifyRequest): void {
  if (body === undefined) throw new Problem('malformed_json', 'The body is missing.');
}

/** Throws `malformed_json` for what is not UTF-8. */
export function decode(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw new Problem('malformed_json', 'The body is not UTF-8 text.', { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8's message quotes the text around the fault, which may be personal data: only the place is shown.
    const place = /at position \d+(?: \(line \d+ column \d+\))?/.exec((error as Error).message)?.[0];
    throw new Problem('malformed_json', `The body is not JSON${place ? `: the fault is ${place}` : ''}.`);
  }
}
