import { promisify } from 'node:util';
import { gunzip, gunzipSync } from 'node:zlib';
import { Agent, request } from 'undici';

/** Most bytes of an answer, unpacked: 200 CRM records with details of full length, escaped, stay well below. */
const maxAnswerBytes = 64 * 1024 * 1024;

/**
 * Few packed bytes, such as those of one record, are unpacked on the spot: it takes less time than to hand them to
 * another thread and back. While more are unpacked aside, the requests that have come are read.
 */
const fewPackedBytes = 2 * 1024;
/** Unless they become more than this, which would hold everybody else up. */
const fewPlainBytes = 256 * 1024;

const unpackAside = promisify(gunzip);

export interface HttpRequest {
  url: string;
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  headers: Record<string, string>;
  body?: string | undefined;
  /** For everything: connecting, waiting, reading. */
  timeoutMs: number;
}

export interface HttpAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: string;
}

/** What went wrong below HTTP. Only `unreachable` is certain: nothing was sent. */
export type HttpFailureKind = 'unreachable' | 'timeout' | 'lost' | 'unreadable';

/** No answer. The message names the cause and never what was sent. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure';
  readonly kind: HttpFailureKind;

  constructor(kind: HttpFailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface Http {
  /** Sends a request and reads the whole answer, whatever its status; follows no redirect. Throws `HttpFailure`. */
  exchange(request: HttpRequest): Promise<HttpAnswer>;
  close(): Promise<void>;
}

/** HTTP to other people's systems over kept connections. `timeoutMs` is the longest that any call may take. */
export function createHttp(timeoutMs: number): Http {
  const agent = new Agent({
    // Shorter than a call, so that a host that is not there shows as unreachable and not as an unknown outcome.
    connect: { timeout: Math.min(5000, timeoutMs * 0.8) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    // HTTP/1.1 alone: how their edges, the CRM's above all, share one HTTP/2 connection between calls is not documented.
    allowH2: false,
    pipelining: 1,
    maxResponseSize: maxAnswerBytes,
    // Where the host names no time of its own: short, since a change on a connection that the host is closing is lost.
    keepAliveTimeout: 10_000,
  });
  return {
    exchange: (options) => exchange(agent, options),
    close: async () => {
      if (!agent.closed && !agent.destroyed) await agent.close();
    },
  };
}

async function exchange(agent: Agent, options: HttpRequest): Promise<HttpAnswer> {
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new HttpFailure('timeout', 'no answer in time')),
    options.timeoutMs,
  );
  try {
    const answer = await request(options.url, {
      dispatcher: agent,
      method: options.method,
      headers: { 'accept-encoding': 'gzip', ...options.headers },
      body: options.body ?? null,
      signal: controller.signal,
    });
    const packed = answer.headers['content-encoding'] === 'gzip';
    const body = packed ? await unpack(await answer.body.bytes()) : await answer.body.text();
    return { status: answer.statusCode, headers: answer.headers, body };
  } catch (error) {
    throw asFailure(error);
  } finally {
    clearTimeout(timer);
  }
}

async function unpack(bytes: Uint8Array): Promise<string> {
  const plain = unpackFew(bytes) ?? (await unpackMany(bytes));
  return plain.toString('utf8');
}

/** Undefined where it is too much to be done at once. */
function unpackFew(bytes: Uint8Array): Buffer | undefined {
  if (bytes.length > fewPackedBytes) return undefined;
  try {
    return gunzipSync(bytes, { maxOutputLength: fewPlainBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw notReadable();
  }
}

async function unpackMany(bytes: Uint8Array): Promise<Buffer> {
  return unpackAside(bytes, { maxOutputLength: maxAnswerBytes }).catch(() => Promise.reject(notReadable()));
}

function notReadable(): HttpFailure {
  return new HttpFailure('unreadable', 'the answer could not be unpacked');
}

/** Failures before the first byte is sent, by the codes of Node and undici; certificate errors have many. */
const beforeSending =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|UND_ERR_CLOSED|UND_ERR_DESTROYED)$|CERT|TLS|SSL|^UNABLE_TO_/;

function asFailure(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (beforeSending.test(code)) return new HttpFailure('unreachable', code);
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
    return new HttpFailure('unreadable', `the answer has more than ${maxAnswerBytes} bytes`);
  if (code.endsWith('_TIMEOUT')) return new HttpFailure('timeout', code);
  return new HttpFailure('lost', code || 'the connection was lost');
}
