import { isLoopback } from './address.ts';
import { type Authorizer, type Credentials, createAuthorizer } from './credentials.ts';
import { parseJson, writeJson } from './json.ts';
import { HandoffConnectionError, HandoffProblem } from './problem.ts';
import { type Reply, replyOf, type WithMeta } from './reply.ts';
import { makeUuid } from './uuid.ts';
import { version } from './version.ts';

/** With one of three kinds of credentials. */
export type ClientOptions = Credentials & CommonOptions;

export interface CommonOptions {
  /** Address of the service: `https://handoff.example.com`. `http:` only for this machine: see `allowInsecureHttp`. */
  baseUrl: string;
  /** The person who acts, for every write that names no other. */
  actor?: string | undefined;
  /** Instead of the global fetch. */
  fetch?: typeof fetch | undefined;
  /** Milliseconds for one try; 30,000 unless given. The service needs up to 25,000. */
  timeoutMs?: number | undefined;
  /** Tries after the first; 3 unless given. */
  maxRetries?: number | undefined;
  /** Allows an `http:` address of another machine. Credentials can then be read on the network. */
  allowInsecureHttp?: boolean | undefined;
}

interface CallOptions {
  /** Ends the call, its retries and its waits. */
  signal?: AbortSignal | undefined;
}

export interface ReadOptions extends CallOptions {
  /** An ETag: the call resolves to undefined where what is read has not changed since. */
  ifNoneMatch?: string | undefined;
}

/** Of reads of quotes, bookings and members. */
export interface RecordReadOptions extends ReadOptions {
  /** Takes an answer that is at most so many seconds old, where the service keeps a copy of the CRM. 0: the CRM is asked. */
  maxAgeSeconds?: number | undefined;
  /** Where the CRM fails, an answer of the copy is taken that is at most so many seconds old (RFC 5861). */
  staleIfErrorSeconds?: number | undefined;
}

export interface IncludeOptions {
  /** Adds `member`, with id, names and e-mail address. */
  include?: 'member' | undefined;
}

export interface WriteOptions extends CallOptions {
  /** An ETag: the write fails with `precondition_failed` where the record has changed since. */
  ifMatch?: string | undefined;
  /** Of an earlier call that is to be repeated; a new UUID unless given. */
  idempotencyKey?: string | undefined;
  /** The person who acts, an adviser's e-mail for example. */
  actor?: string | undefined;
}

/** What is asked for. Each value is a QueryValue: a list is sent as repeated parameters, and undefined is left out. */
export type Query = object;

type QueryScalar = string | number | boolean | Date | undefined;
type QueryValue = QueryScalar | readonly QueryScalar[];

export interface Request {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  query?: Query | undefined;
  body?: unknown;
  /** Of a write: it gets an Idempotency-Key and an actor. */
  write?: WriteOptions | undefined;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  /** Beside 2xx, an answer of this status with JSON of the service is a result: no problem, no reason to retry. */
  resultStatus?: number;
  /** It is not sent again: the service cannot tell a repeat. */
  isOnce?: true;
}

type Init = Omit<RequestInit, 'headers'> & { headers: Record<string, string> };

/** Sends requests, repeats what may be repeated, and reads answers. */
export class Transport {
  readonly #options: ClientOptions;
  readonly #base: string;
  readonly #authorizer: Authorizer;

  constructor(options: ClientOptions) {
    if (!options.baseUrl) throw new TypeError('baseUrl is missing');
    this.#options = options;
    this.#authorizer = createAuthorizer(options, (path, init) => this.#ask(path, init));
    const base = new URL(options.baseUrl);
    if (base.protocol === 'http:' && !isLoopback(base) && options.allowInsecureHttp !== true)
      throw new TypeError(
        'baseUrl is http: and not an address of this machine; use https:, or set allowInsecureHttp',
      );
    this.#base = base.href.replace(/\/+$/, '');
  }

  /** Resolves to the answer's body; rejects with a HandoffProblem or a HandoffConnectionError. */
  send<Answer>(request: Request): Reply<Answer> {
    return replyOf(this.#send(request) as Promise<WithMeta<Answer>>);
  }

  async #send(request: Request): Promise<WithMeta<unknown>> {
    const signal = request.signal ?? request.write?.signal;
    const key = keyOf(request);
    const url = this.#base + request.path + queryText(request.query);
    const init = this.#init(request, key);
    const { maxRetries = 3 } = request.isOnce ? { maxRetries: 0 } : this.#options;
    for (let retries = 0; ; retries += 1) {
      const outcome = await this.#try(url, init, signal, key, request.resultStatus);
      if (!(outcome instanceof Error)) return outcome;
      const wait = waitBefore(outcome, retries);
      if (retries >= maxRetries || wait === undefined) throw outcome;
      await pause(wait, signal);
    }
  }

  /** One try: an answer's body, or the failure, which may be worth another try. Throws the reason of the caller's signal. */
  async #try(
    url: string,
    init: Init,
    signal: AbortSignal | undefined,
    key: string | undefined,
    resultStatus: number | undefined,
  ): Promise<WithMeta<unknown> | HandoffProblem | HandoffConnectionError> {
    signal?.throwIfAborted();
    const timeout = AbortSignal.timeout(this.#options.timeoutMs ?? 30_000);
    try {
      const ended = signal ? AbortSignal.any([signal, timeout]) : timeout;
      const response = await this.#fetch(url, init, ended);
      const text = await response.text();
      if (isResult(response, resultStatus)) return withMeta(response, text);
      return new HandoffProblem(response, text, key);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof HandoffProblem) return error;
      return new HandoffConnectionError(error, key);
    }
  }

  /** With what proves who this is; once more with something new where that is refused. */
  async #fetch(url: string, init: Init, signal: AbortSignal): Promise<Response> {
    const { fetch = globalThis.fetch } = this.#options;
    const send = async () => {
      const own = await unlessEnded(this.#authorizer.headers(), signal);
      return fetch(url, { ...init, headers: { ...own, ...init.headers }, signal });
    };
    const response = await send();
    if (response.status !== 401 || !this.#authorizer.renew()) return response;
    await response.body?.cancel();
    return send();
  }

  /** A request of the client's own, which no call ends: several may wait for it. */
  #ask(path: string, init: RequestInit = {}): Promise<Response> {
    const { fetch = globalThis.fetch, timeoutMs = 30_000 } = this.#options;
    const headers = { accept: 'application/json', ...userAgent() };
    return fetch(this.#base + path, {
      ...init,
      headers,
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    });
  }

  #init({ method, body, write, headers }: Request, key: string | undefined): Init {
    const actor = write && (write.actor ?? this.#options.actor);
    return {
      method,
      // The credentials are for this address alone.
      redirect: 'manual',
      headers: {
        accept: 'application/json, application/problem+json',
        ...userAgent(),
        ...(key !== undefined && { 'idempotency-key': key }),
        ...(actor !== undefined && { 'x-actor': encodeActor(actor) }),
        ...(write?.ifMatch !== undefined && { 'if-match': write.ifMatch }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: writeJson(body) }),
    };
  }
}

/** What the work gives, unless the signal comes first. */
async function unlessEnded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let end = () => {};
  const ended = new Promise<never>((_, reject) => {
    end = () => reject(signal.reason as Error);
  });
  signal.addEventListener('abort', end, { once: true });
  return Promise.race([work, ended]).finally(() => signal.removeEventListener('abort', end));
}

const retriedStatuses = new Set([429, 502, 503, 504]);
/** A longer wait that the service asks for is the caller's to take. */
const longestWaitSeconds = 60;

/** Milliseconds to wait before the next try; undefined where another try is of no use. */
function waitBefore(failure: HandoffProblem | HandoffConnectionError, retries: number): number | undefined {
  const backoff = Math.min(500 * 2 ** retries, 8000) * (0.5 + Math.random() / 2);
  if (failure instanceof HandoffConnectionError) return backoff;
  const { status, code, retryAfter } = failure;
  if (!retriedStatuses.has(status) && code !== 'idempotency_in_progress') return undefined;
  if (retryAfter === undefined) return backoff;
  // A little later than asked for, so that clients with the same answer do not come at once.
  return retryAfter > longestWaitSeconds ? undefined : retryAfter * 1000 + Math.random() * 250;
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
  signal?.throwIfAborted();
}

function queryText(query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query) as [string, QueryValue][]) {
    const values = Array.isArray(value) ? (value as readonly QueryScalar[]) : [value];
    for (const one of values) {
      if (one !== undefined) parameters.append(name, one instanceof Date ? one.toISOString() : String(one));
    }
  }
  return parameters.size > 0 ? `?${parameters}` : '';
}

function keyOf({ write }: Request): string | undefined {
  return write && (write.idempotencyKey ?? makeUuid());
}

function isResult(response: Response, resultStatus: number | undefined): boolean {
  const { ok, status } = response;
  return ok || status === 304 || (status === resultStatus && isJson(response));
}

function isJson({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('application/json') === true;
}

function withMeta({ headers }: Response, text: string): WithMeta<unknown> {
  return {
    data: text === '' ? undefined : parseJson(text),
    etag: headers.get('etag') ?? undefined,
    requestId: headers.get('x-request-id') ?? undefined,
    replayed: headers.get('idempotent-replayed') === 'true',
  };
}

/** Everything but printable ASCII, and the percent sign itself, percent-encoded. */
function encodeActor(actor: string): string {
  return actor.replaceAll(/[^ -$&-~]+/gu, encodeURIComponent);
}

/** Browsers name themselves, and let no page do it. */
function userAgent(): Record<string, string> {
  const { process } = globalThis as { process?: { versions?: { node?: string } } };
  const node = process?.versions?.node;
  return node === undefined ? {} : { 'user-agent': `handoff-client/${version} (node ${node})` };
}

/** The headers of a read: how old its answer may be, where that is not left to the service, and what the caller has already. */
export function readHeaders({
  maxAgeSeconds,
  staleIfErrorSeconds,
  ifNoneMatch,
}: RecordReadOptions): Record<string, string> {
  const directives = [
    ...(maxAgeSeconds === undefined ? [] : [`max-age=${maxAgeSeconds}`]),
    ...(staleIfErrorSeconds === undefined ? [] : [`stale-if-error=${staleIfErrorSeconds}`]),
  ];
  return {
    ...(directives.length > 0 && { 'cache-control': directives.join(', ') }),
    ...(ifNoneMatch !== undefined && { 'if-none-match': ifNoneMatch }),
  };
}
