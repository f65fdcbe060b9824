import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { clearTimeout, setTimeout } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Connections } from '../connections/lingering-close.ts';
import type { Route, Step } from '../route.ts';

declare module 'fastify' {
  interface FastifyRequest {
    bodyBytes: Buffer | undefined;
    bodyText: string;
  }
}

/** Bytes of a request body at most. */
export const maxBodyBytes = 1_048_576;

export const formType = 'application/x-www-form-urlencoded';

export function wrongMediaType(takesForm: boolean): Problem {
  const [what, type] = takesForm ? ['a form', formType] : ['JSON', 'application/json'];
  return new Problem('unsupported_media_type', `Send the body as ${what}, with Content-Type: ${type}.`);
}

/** `limit` in bytes. */
export function bodyTooLarge(limit: number): Problem {
  return new Problem('payload_too_large', `The body is larger than ${limit} bytes.`);
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

/**
 * Whether so much of a body may be unread that the connection is closed: to use it again, the rest would have to be read
 * first.
 */
export function leavesMuchUnread({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxBodyBytes;
}

/** Lets a request without a body have a content type, which the framework would check. */
export function forgetTypeOfEmptyBody({ request: { body }, bodyOptional }: Route): Step | undefined {
  if (body !== undefined && !bodyOptional) return undefined;
  return ({ headers }) => {
    const isEmpty =
      headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
    if (isEmpty) delete headers['content-type'];
  };
}

/** Throws `malformed_json` for what is not UTF-8. */
export function decode(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw new Problem('malformed_json', "The body isn't UTF-8 text.", { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8's message quotes the text around the fault, which may be personal data: only the place is shown.
    const place = /at position \d+(?: \(line \d+ column \d+\))?/.exec((error as Error).message)?.[0];
    throw new Problem('malformed_json', `The body isn't JSON${place ? `: the fault is ${place}` : ''}.`);
  }
}

/** Bytes to begin with for a body whose length is not known. */
const firstBytes = 16_384;

const readings = new WeakMap<IncomingMessage, (problem: Problem) => void>();

export function failReading(request: IncomingMessage, problem: Problem): boolean {
  const fail = readings.get(request);
  fail?.(problem);
  return fail !== undefined;
}

interface BodyBounds {
  announced: number;
  /** Bytes at most. */
  limit: number;
  /** Milliseconds for all of it. */
  timeoutMs: number;
}

/**
 * The bytes of a body. Throws `Problem` where there are too many of them, where they take too long, or where the client
 * hangs up. They are copied into one buffer as they come: a body in very small chunks takes no more memory than another.
 */
function readBytes(request: IncomingMessage, { announced, limit, timeoutMs }: BodyBounds): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.allocUnsafe(announced || firstBytes);
    let length = 0;
    const end = (finish: () => void) => {
      clearTimeout(timeout);
      readings.delete(request);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      finish();
    };
    const fail = (problem: Problem) => end(() => reject(problem));
    const onData = (chunk: Buffer) => {
      const wanted = length + chunk.length;
      if (wanted > limit) return fail(bodyTooLarge(limit));
      if (wanted > bytes.length) bytes = enlarge(bytes, Math.min(limit, Math.max(wanted, 2 * bytes.length)));
      chunk.copy(bytes, length);
      length = wanted;
    };
    const onEnd = () => end(() => resolve(bytes.subarray(0, length)));
    const onClose = () => fail(hungUp());
    const timeout = setTimeout(() => fail(tooSlow()), timeoutMs);
    // A client may hang up before the reading begins, and then there are no events any more.
    if (request.destroyed) return onClose();
    readings.set(request, fail);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

export function tooSlow(): Problem {
  return new Problem('invalid_request', "The request didn't arrive in time.", { status: 408 });
}

/** No caller sees it: it ends the work on the request, and is no error of the service. */
export function hungUp(): Problem {
  return new Problem('invalid_request', 'The caller hung up before the work on its request began.');
}

function enlarge(bytes: Buffer, size: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafe(size);
  bytes.copy(larger);
  return larger;
}
