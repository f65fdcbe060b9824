import { type IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Writable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { Problem } from '../../platform/base/problem.ts';
import type { StoredAnswer } from '../idempotency/keyed-request.ts';

declare module 'fastify' {
  interface FastifyRequest {
    isPassedOn: boolean;
  }
  interface FastifyContextConfig {
    passesOn?: true | undefined;
  }
}

export interface PassedKey {
  key: string;
  /** For this long a repeat is answered alike; undefined: as long as a key is kept. */
  repeatWindowSeconds: number | undefined;
}

export interface PassedRequest {
  method: string;
  url: string;
  /** JSON text. */
  body: string | undefined;
  ifMatch?: string | undefined;
  actor: string | undefined;
  refusal?: Problem | undefined;
  /** The key under which a write is executed once, in place of an Idempotency-Key. Throws `Problem`. */
  key(): Promise<PassedKey>;
  /** Makes a repeat equal, in place of the bytes of the body. */
  identity(): string;
  reword(problem: Problem): Problem;
}

/** Headers of who calls, from where and under which trace; all others are about the outer request only. */
const keptHeaders = [
  ...['host', 'x-api-key', 'x-api-secret', 'authorization', 'user-agent', 'x-actor'],
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'traceparent', 'tracestate'],
];

/**
 * Has the router answer a request that nobody has sent, as it answers all others: after the same checks, with a log line and
 * an attempt of its own. It comes from the connection of the outer one, so its address and certificate are the same.
 */
export function passOn(outer: FastifyRequest, inner: PassedRequest): Promise<StoredAnswer> {
  outer.isPassedOn = true;
  const message = new InnerMessage(outer, inner);
  message.method = inner.method;
  message.url = inner.url;
  message.headers = headersFor(outer, inner);
  const actors = inner.actor === undefined ? outer.raw.headersDistinct['x-actor'] : [inner.actor];
  message.headersDistinct = actors === undefined ? {} : { 'x-actor': actors };
  if (inner.body !== undefined) message.push(inner.body);
  message.push(null);
  const response = new InnerResponse(message);
  outer.server.routing(message, response);
  return response.answer;
}

/** Undefined for a message that came over a connection. */
export function passedRequestOf(message: IncomingMessage): PassedRequest | undefined {
  return message instanceof InnerMessage ? message.passed : undefined;
}

export function takeOverCount(request: FastifyRequest): void {
  if (!(request.raw instanceof InnerMessage)) return;
  request.isCounted = true;
  request.limitRefusal = request.raw.outer.limitRefusal;
}

function headersFor(
  { raw, id }: FastifyRequest,
  { body, actor, ifMatch }: PassedRequest,
): IncomingHttpHeaders {
  const kept = keptHeaders.flatMap((name) =>
    raw.headers[name] === undefined ? [] : [[name, raw.headers[name]]],
  );
  return {
    ...(Object.fromEntries(kept) as IncomingHttpHeaders),
    'x-request-id': id,
    ...(actor !== undefined && { 'x-actor': actor }),
    ...(ifMatch !== undefined && { 'if-match': ifMatch }),
    ...(body !== undefined && {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
    }),
  };
}

/** A message that has come whole. It must neither read from the connection nor end it: both are the outer one's. */
class InnerMessage extends IncomingMessage {
  override httpVersion = '1.1';
  override httpVersionMajor = 1;
  override httpVersionMinor = 1;
  override complete = true;
  readonly passed: PassedRequest;
  readonly outer: Pick<FastifyRequest, 'limitRefusal'>;

  constructor(outer: FastifyRequest, passed: PassedRequest) {
    super(outer.raw.socket);
    this.passed = passed;
    this.outer = outer;
  }

  override _read(): void {}

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    done(error);
  }
}

class InnerResponse extends ServerResponse {
  readonly answer: Promise<StoredAnswer>;
  #headers: Record<string, unknown> = {};
  #body: string | Buffer = '';

  constructor(message: IncomingMessage) {
    super(message);
    this.answer = new Promise((resolve) => {
      this.once('finish', () => {
        resolve({ status: this.statusCode, headers: textsOf(this.#headers), body: this.#body.toString() });
        // No connection ends it.
        this.emit('close');
      });
    });
    // Its bytes are needed by nobody, but they have to go somewhere for it to finish.
    this.assignSocket(new Writable({ write: (_chunk, _encoding, done) => done() }) as Socket);
  }

  override writeHead(status: number, ...rest: unknown[]): this {
    this.#headers = (rest.at(-1) ?? {}) as Record<string, unknown>;
    return super.writeHead(status, ...(rest as []));
  }

  override end(...given: unknown[]): this {
    const [body] = given;
    if (typeof body === 'string' || Buffer.isBuffer(body)) this.#body = body;
    return super.end(...(given as []));
  }
}

function textsOf(headers: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}
