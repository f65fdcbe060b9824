import { pipeline } from 'node:stream';
import { promisify } from 'node:util';
import { createGunzip, gunzip, gunzipSync } from 'node:zlib';
import { Agent, type Dispatcher, request } from 'undici';
import { clearTimeout, now, setTimeout } from '../base/chance.ts';

/** Most bytes of an answer, packed and unpacked. */
const maxAnswerBytes = 64 * 1024 * 1024;

/**
 * Answers of up to a batch of usual records are unpacked synchronously: it takes less time than a hop to another thread and
 * back. Larger ones are unpacked in another thread, so that requests are read meanwhile.
 */
const fewPackedBytes = 16 * 1024;
/** Unless they become more than this, which would block other requests. */
const fewPlainBytes = 256 * 1024;

const streamedBytes = 64 * 1024;

const unpackInThread = promisify(gunzip);

export interface HttpRequest {
  url: string;
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  headers: Record<string, string>;
  body?: string | undefined;
  /** For everything: connecting, waiting, reading. Nothing is sent after that, also by a process that stood still meanwhile. */
  timeoutMs: number;
  /** Bytes of the answer at most, unpacked; 64 MiB when not given. */
  maxBytes?: number | undefined;
}

interface HttpHead {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface HttpAnswer extends HttpHead {
  body: string;
}

/** Only `unreachable` is certain: nothing was sent. */
type HttpFailureKind = 'unreachable' | 'timeout' | 'lost' | 'unreadable';

/** No answer. The message names the cause and never what was sent. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure';
  readonly kind: HttpFailureKind;

  constructor(kind: HttpFailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Leaving the loop over the chunks ends the exchange. */
type ReadChunks<T> = (head: HttpHead, chunks: AsyncIterable<Uint8Array>) => Promise<T>;

export function createHttp(timeoutMs: number) {
  const agent = new Agent({
    // Shorter than a call, so that a host that does not answer counts as unreachable and not as an unknown outcome.
    connect: { timeout: Math.min(5000, timeoutMs * 0.8) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    // HTTP/1.1 only: how the other systems, above all the CRM, share one HTTP/2 connection is not documented.
    allowH2: false,
    pipelining: 1,
    maxResponseSize: maxAnswerBytes,
    // Where the host names no time of its own: short, since a change on a connection that the host is closing is lost.
    keepAliveTimeout: 10_000,
  });
  const dispatcher = agent.compose(sendInTime);
  return {
    /** Sends a request and reads the whole answer, whatever its status; follows no redirect. Throws `HttpFailure`. */
    exchange: (options: HttpRequest): Promise<HttpAnswer> => exchange(dispatcher, options),
    /**
     * Sends a request and hands its answer to `read` as it arrives, unpacked. What `read` does not consume is not fetched.
     * The chunks throw `HttpFailure`, and so does this; errors of `read` pass as they are.
     */
    stream: <T>(options: HttpRequest, read: ReadChunks<T>): Promise<T> => stream(dispatcher, options, read),
    close: async (): Promise<void> => {
      if (!agent.closed && !agent.destroyed) await agent.close();
    },
  };
}

export type Http = ReturnType<typeof createHttp>;

type TimedOptions = Dispatcher.DispatchOptions & { sendBefore?: number };

/**
 * Gives a request up where its time is over once it has a connection. A process that stood still reads that it is connected
 * before its timers run.
 */
export const sendInTime: Dispatcher.DispatcherComposeInterceptor =
  (dispatch) => (options: TimedOptions, handler) => {
    const { sendBefore = Number.POSITIVE_INFINITY } = options;
    const start = handler.onRequestStart?.bind(handler);
    handler.onRequestStart = (controller, context) => {
      if (now() < sendBefore) start?.(controller, context);
      else controller.abort(new HttpFailure('unreachable', 'no time was left when it was connected'));
    };
    return dispatch(options, handler);
  };

async function exchange(dispatcher: Dispatcher, options: HttpRequest): Promise<HttpAnswer> {
  return inTime(options, async (limits) => {
    try {
      const answer = await send(dispatcher, options, limits);
      const { maxBytes = maxAnswerBytes } = options;
      const body = isPacked(answer)
        ? await unpack(await answer.body.bytes(), maxBytes)
        : await readText(answer.body, maxBytes);
      return { status: answer.statusCode, headers: answer.headers, body };
    } catch (error) {
      throw asFailure(error);
    }
  });
}

async function stream<T>(dispatcher: Dispatcher, options: HttpRequest, read: ReadChunks<T>): Promise<T> {
  return inTime(options, async (limits) => {
    const answer = await send(dispatcher, options, limits).catch((error: unknown) => {
      throw asFailure(error);
    });
    return read({ status: answer.statusCode, headers: answer.headers }, chunksOf(answer));
  });
}

async function* chunksOf(answer: Dispatcher.ResponseData): AsyncGenerator<Uint8Array> {
  // A reader that leaves early destroys the stream, which emits that as an error.
  const source = answer.body.on('error', () => undefined);
  const unpacker = () => createGunzip({ chunkSize: streamedBytes });
  try {
    yield* isPacked(answer) ? pipeline(source, unpacker(), () => undefined) : source;
  } catch (error) {
    throw asFailure(error);
  }
}

interface Limits {
  signal: AbortSignal;
  sendBefore: number;
}

async function inTime<T>({ timeoutMs }: HttpRequest, work: (limits: Limits) => Promise<T>): Promise<T> {
  const sendBefore = now() + timeoutMs;
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new HttpFailure('timeout', 'no answer in time')),
    timeoutMs,
  );
  try {
    return await work({ signal: controller.signal, sendBefore });
  } finally {
    clearTimeout(timer);
  }
}

function send(
  dispatcher: Dispatcher,
  options: HttpRequest,
  limits: Limits,
): Promise<Dispatcher.ResponseData> {
  return request(options.url, {
    dispatcher,
    method: options.method,
    headers: { 'accept-encoding': 'gzip', ...options.headers },
    body: options.body ?? null,
    ...limits,
  });
}

function isPacked({ headers }: Dispatcher.ResponseData): boolean {
  return headers['content-encoding'] === 'gzip';
}

async function readText(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<string> {
  if (maxBytes >= maxAnswerBytes) return body.text();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

async function unpack(bytes: Uint8Array, maxBytes: number): Promise<string> {
  const plain = unpackFew(bytes) ?? (await unpackMany(bytes, maxBytes));
  return plain.toString('utf8');
}

/** Undefined where it is too large for that. */
function unpackFew(bytes: Uint8Array): Buffer | undefined {
  if (bytes.length > fewPackedBytes) return undefined;
  try {
    return gunzipSync(bytes, { maxOutputLength: fewPlainBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw notReadable();
  }
}

async function unpackMany(bytes: Uint8Array, maxOutputLength: number): Promise<Buffer> {
  return unpackInThread(bytes, { maxOutputLength }).catch(() => Promise.reject(notReadable()));
}

function tooLarge(maxBytes: number): HttpFailure {
  return new HttpFailure('unreadable', `the answer has more than ${maxBytes} bytes`);
}

function notReadable(): HttpFailure {
  return new HttpFailure('unreadable', "couldn't unpack the answer");
}

/** Failures before the first byte is sent, by the codes of Node and undici; certificate errors have many. */
const beforeSending =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|UND_ERR_CLOSED|UND_ERR_DESTROYED)$|CERT|TLS|SSL|^UNABLE_TO_/;

function asFailure(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (beforeSending.test(code)) return new HttpFailure('unreachable', code);
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return tooLarge(maxAnswerBytes);
  if (code.startsWith('Z_')) return notReadable();
  if (code.endsWith('_TIMEOUT')) return new HttpFailure('timeout', code);
  return new HttpFailure('lost', code || 'the connection was lost');
}
