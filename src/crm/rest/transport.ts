import { type Call, remainingMs } from '../../platform/base/call.ts';
import { monotonicMs, wallMs } from '../../platform/base/chance.ts';
import { type Span, traceHeaders } from '../../platform/base/span.ts';
import { type Http, HttpFailure, type HttpRequest } from '../../platform/http/http.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { CrmFailure } from '../failure.ts';
import type { AccessToken } from '../token/access-token.ts';
import { VersionCheck } from './api-versions.ts';
import { failureOf } from './errors.ts';
import type { CallQuota } from './quota.ts';
import { type CrmAnswer, type CrmRequest, header, isMetered, isSuccess, sharersOf } from './request.ts';
import { readRowStream, type TakeRow } from './row-stream.ts';

/**
 * Bytes of an answer at most, as it is parsed as a whole. A read of several records is asked for again in halves; the
 * answer to a write of several must not be lost for its size, and has the bound of the HTTP client.
 */
const maxAnswerBytes = 8 * 1024 * 1024;
/** Bytes of an answer in which reads share a call with writes, which are looked up where it is too large. */
const maxMixedBytes = 3 * maxAnswerBytes;
/** Characters of an error that is streamed. */
const longestError = 64 * 1024;

interface TransportOptions {
  http: Http;
  apiVersion: string;
  timeoutMs: number;
  quota: CallQuota;
  time: CrmTime;
  writeHeaders: Readonly<Record<string, string>>;
  metrics: Metrics;
  digitsOf?: (() => ReadonlySet<string>) | undefined;
  onMetered: OnMetered;
}

/** Called after a call that the CRM meters, with the consumer of each request that shared it. Never throws. */
export type OnMetered = (operation: string, sharers: readonly (string | undefined)[]) => void;

/** A call with less time than this before its deadline is not worth starting. */
export function shortestCallMs(timeoutMs: number): number {
  return Math.min(timeoutMs, 1000);
}

export class Transport {
  readonly #options: TransportOptions;
  readonly #versions: VersionCheck;
  readonly #noteToken: (token: AccessToken) => void;
  readonly #parse: ParseJson;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#versions = new VersionCheck(options);
    this.#noteToken = createTokenGauges(options.metrics);
    this.#parse = createParser(options.digitsOf);
  }

  /** Throws `CrmFailure`. */
  async exchange(request: CrmRequest, call: Call, token: AccessToken): Promise<CrmAnswer> {
    const { quota, time, metrics } = this.#options;
    const timeoutMs = timeFor(request, call, this.#options.timeoutMs);
    this.#noteToken(token);
    const started = monotonicMs();
    const span = call.span.child('client', `crm ${request.operation}`, {
      'http.request.method': request.method,
      'server.address': new URL(token.instanceUrl).hostname,
      'handoff.crm.records': request.records ?? 1,
    });
    let outcome = 'ok';
    try {
      const answer = await sendHttp(this.#options, request, token, { timeoutMs, span, parse: this.#parse });
      span.set({ 'http.response.status_code': answer.status });
      quota.note(answer);
      time.note(answer);
      if (!isSuccess(answer))
        throw await this.#versions.explain(failureOf(answer, request), request, token.instanceUrl);
      return request.unwrap?.(answer) ?? answer;
    } catch (error) {
      outcome = error instanceof CrmFailure ? error.kind : 'error';
      throw error;
    } finally {
      noteMetered(this.#options, request, call, outcome);
      const ms = monotonicMs() - started;
      call.crmMs += ms;
      metrics.crmCallDuration.observe({ operation: request.operation, outcome }, ms / 1000);
      span.end(outcome === 'ok' ? undefined : outcome);
    }
  }
}

/** Milliseconds that the call may take. Throws `CrmFailure` (late) where it is not to be sent any more. */
function timeFor({ notAfter }: CrmRequest, call: Call, longestMs: number): number {
  const timeoutMs = Math.min(longestMs, remainingMs(call));
  const isTooLate = notAfter !== undefined && wallMs() >= notAfter;
  if (!isTooLate && timeoutMs >= shortestCallMs(longestMs)) return timeoutMs;
  throw new CrmFailure('late', 'no time was left for the call');
}

function noteMetered(
  { metrics, onMetered }: TransportOptions,
  request: CrmRequest,
  call: Call,
  outcome: string,
): void {
  if (outcome === 'unreachable' || !isMetered(request)) return;
  metrics.crmCalls.inc({ operation: request.operation });
  onMetered(request.operation, sharersOf(call));
}

/** Names us in the org's logs (REST Developer Guide, Call Options Header). */
const clientHeader = { 'sforce-call-options': 'client=handoff-gateway' };

async function sendHttp(
  { http, writeHeaders }: TransportOptions,
  request: CrmRequest,
  token: AccessToken,
  { timeoutMs, span, parse }: { timeoutMs: number; span: Span; parse: ParseJson },
): Promise<CrmAnswer> {
  const { method, path, body, takeRows } = request;
  const options: HttpRequest = {
    url: token.instanceUrl + path,
    method,
    headers: {
      authorization: `Bearer ${token.accessToken}`,
      accept: 'application/json',
      ...clientHeader,
      ...(request.effect !== 'read' && request.operation !== 'delete' && writeHeaders),
      ...traceHeaders(span),
      ...(body === undefined ? {} : { 'content-type': 'application/json; charset=UTF-8' }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    timeoutMs,
    maxBytes: maxBytesOf(request),
  };
  try {
    if (takeRows !== undefined) return await streamRows(http, options, { request, take: takeRows(), parse });
    const answer = await http.exchange(options);
    return { ...answer, body: parseBody(answer.body, { status: answer.status, request, parse }) };
  } catch (error) {
    throw asCrmFailure(error, request);
  }
}

/** A batch of changes that is read back may be answered with as many whole records; undefined: the client's own bound. */
function maxBytesOf({ operation, effect, records = 1 }: CrmRequest): number | undefined {
  if (operation === 'mixed' && effect !== 'read') return maxMixedBytes;
  return effect === 'read' || records === 1 ? maxAnswerBytes : undefined;
}

function streamRows(
  http: Http,
  options: HttpRequest,
  { request, take, parse }: { request: CrmRequest; take: TakeRow; parse: ParseJson },
): Promise<CrmAnswer> {
  return http.stream(options, async ({ status, headers }, chunks) => {
    if (!isSuccess({ status }))
      return { status, headers, body: parseBody(await readStart(chunks), { status, request, parse }) };
    try {
      return { status, headers, body: await readRowStream(chunks, take, { ...request, parse }) };
    } catch (error) {
      const isUnreadable = error instanceof SyntaxError || error instanceof RangeError;
      throw isUnreadable ? notJson(status, request) : error;
    }
  });
}

async function readStart(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  let text = '';
  for await (const chunk of chunks) {
    text += Buffer.from(chunk).toString('utf8');
    if (text.length > longestError) break;
  }
  return text;
}

function asCrmFailure(error: unknown, request: CrmRequest): unknown {
  if (!(error instanceof HttpFailure)) return error;
  const outcomeUnknown = error.kind !== 'unreachable' && request.effect !== 'read';
  return new CrmFailure(error.kind === 'unreadable' ? 'broken' : error.kind, error.message, {
    outcomeUnknown,
  });
}

type ParseJson = (text: string) => unknown;
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

function createParser(digitsOf: (() => ReadonlySet<string>) | undefined): ParseJson {
  return (text) => {
    const columns = digitsOf?.();
    if (columns === undefined || columns.size === 0) return JSON.parse(text) as unknown;
    const revive: Reviver = (key, value, context) =>
      typeof value === 'number' && columns.has(key) ? context?.source : value;
    return JSON.parse(text, revive as Parameters<typeof JSON.parse>[1]) as unknown;
  };
}

function parseBody(
  text: string,
  { status, request, parse }: { status: number; request: CrmRequest; parse: ParseJson },
): unknown {
  if (text === '') return undefined;
  try {
    return parse(text);
  } catch {
    if (!isSuccess({ status })) return text.slice(0, 1000);
    throw notJson(status, request);
  }
}

function notJson(status: number, { effect }: CrmRequest): CrmFailure {
  const outcomeUnknown = effect !== 'read';
  return new CrmFailure('broken', `an answer with status ${status} is no JSON`, { status, outcomeUnknown });
}

/**
 * The time by the CRM's clock, from the Date of its latest answer: never ahead of it, and at most a second and an
 * answer's way behind. Before the first answer, and where answers have no Date, this process's own clock counts.
 */
export class CrmTime {
  #aheadMs = wallMs() - monotonicMs();

  note({ headers }: Pick<CrmAnswer, 'headers'>): void {
    const date = Date.parse(header(headers, 'date') ?? '');
    if (!Number.isNaN(date)) this.#aheadMs = date - monotonicMs();
  }

  /** Milliseconds since 1970. */
  now(): number {
    return monotonicMs() + this.#aheadMs;
  }
}

function createTokenGauges(metrics: Metrics): (token: AccessToken) => void {
  let latest: string | undefined;
  return ({ accessToken, expiresAt }) => {
    if (accessToken === latest) return;
    latest = accessToken;
    metrics.crmTokenAge.restart();
    metrics.crmTokenExpiresAt.set(expiresAt / 1000);
  };
}
