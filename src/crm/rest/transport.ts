import { remainingMs } from '../../platform/base/call.ts';
import type { Span } from '../../platform/base/span.ts';
import { traceHeaders } from '../../platform/base/trace-context.ts';
import { type Http, HttpFailure, type HttpRequest } from '../../platform/http/http.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { AccessToken } from '../token/access-token.ts';
import { createTokenGauges } from '../token/token-gauges.ts';
import type { CrmTime } from './crm-time.ts';
import { failureOf } from './errors.ts';
import { CrmFailure } from './failure.ts';
import type { CallQuota } from './quota.ts';
import { type CrmAnswer, type CrmRequest, type Exchange, isMetered } from './request.ts';
import { readRowStream, type TakeRow } from './row-stream.ts';

/**
 * Bytes of an answer at most, as it is parsed as a whole. A read of several records is asked for again in halves; the
 * answer to a write of several must not be lost for its size, and has the bound of the HTTP client.
 */
const maxAnswerBytes = 8 * 1024 * 1024;
/** Characters of an error that is streamed. */
const longestError = 64 * 1024;

export interface TransportOptions {
  http: Http;
  timeoutMs: number;
  quota: CallQuota;
  time: CrmTime;
  metrics: Metrics;
}

/** A call with less time than this before its deadline is not worth starting. */
export function shortestCallMs(timeoutMs: number): number {
  return Math.min(timeoutMs, 1000);
}

/**
 * The innermost layer: one exchange, measured. Answers without success become `CrmFailure`s here, so that all layers
 * above deal in one kind of error.
 */
export function createTransport(options: TransportOptions): Exchange {
  const { http, quota, time, metrics } = options;
  const noteToken = createTokenGauges(metrics);
  return async (request, call, token) => {
    const timeoutMs = Math.min(options.timeoutMs, remainingMs(call));
    if (timeoutMs < shortestCallMs(options.timeoutMs)) {
      throw new CrmFailure('late', 'no time was left for the call');
    }
    noteToken(token);
    const started = performance.now();
    const span = call.span.child('client', `crm ${request.operation}`, {
      'http.request.method': request.method,
      'server.address': new URL(token.instanceUrl).hostname,
      'handoff.crm.records': request.records ?? 1,
    });
    let outcome = 'ok';
    try {
      const answer = await exchange(http, request, token, { timeoutMs, span });
      span.set({ 'http.response.status_code': answer.status });
      quota.note(answer);
      time.note(answer);
      if (!isSuccess(answer.status)) throw failureOf(answer, request);
      return request.unwrap?.(answer) ?? answer;
    } catch (error) {
      outcome = error instanceof CrmFailure ? error.kind : 'error';
      throw error;
    } finally {
      countCall(metrics, request, outcome);
      const ms = performance.now() - started;
      call.crmMs += ms;
      metrics.crmCallDuration.observe({ operation: request.operation, outcome }, ms / 1000);
      span.end(outcome === 'ok' ? undefined : outcome);
    }
  };
}

/** One that never went out is not counted by the CRM either. */
function countCall({ crmCalls }: Metrics, request: CrmRequest, outcome: string): void {
  if (outcome !== 'unreachable' && isMetered(request)) crmCalls.inc({ operation: request.operation });
}

async function exchange(
  http: Http,
  request: CrmRequest,
  token: AccessToken,
  { timeoutMs, span }: { timeoutMs: number; span: Span },
): Promise<CrmAnswer> {
  const { method, path, body, takeRows } = request;
  const options: HttpRequest = {
    url: token.instanceUrl + path,
    method,
    headers: {
      authorization: `Bearer ${token.accessToken}`,
      accept: 'application/json',
      ...traceHeaders(span),
      ...(body === undefined ? {} : { 'content-type': 'application/json; charset=UTF-8' }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    timeoutMs,
    maxBytes: maxBytesOf(request),
  };
  try {
    if (takeRows !== undefined) return await exchangeRows(http, options, request, takeRows());
    const answer = await http.exchange(options);
    return { ...answer, body: parseBody(answer.body, answer.status, request) };
  } catch (error) {
    throw asCrmFailure(error, request);
  }
}

/** A batch of changes that is read back may be answered with as many whole records; undefined: the client's own bound. */
function maxBytesOf({ effect, records = 1 }: CrmRequest): number | undefined {
  return effect === 'read' || records === 1 ? maxAnswerBytes : undefined;
}

function exchangeRows(
  http: Http,
  options: HttpRequest,
  request: CrmRequest,
  take: TakeRow,
): Promise<CrmAnswer> {
  return http.stream(options, async ({ status, headers }, chunks) => {
    if (!isSuccess(status))
      return { status, headers, body: parseBody(await readStart(chunks), status, request) };
    try {
      return { status, headers, body: await readRowStream(chunks, take, request.frameDepth) };
    } catch (error) {
      const isUnreadable = error instanceof SyntaxError || error instanceof RangeError;
      throw isUnreadable ? notJson(status, request) : error;
    }
  });
}

/** The start of a text that is short where it is what it should be. */
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

/** JSON where it is JSON, the text otherwise; a success must be JSON or empty. */
function parseBody(text: string, status: number, request: CrmRequest): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    if (!isSuccess(status)) return text.slice(0, 1000);
    throw notJson(status, request);
  }
}

function notJson(status: number, { effect }: CrmRequest): CrmFailure {
  const outcomeUnknown = effect !== 'read';
  return new CrmFailure('broken', `an answer with status ${status} is no JSON`, { status, outcomeUnknown });
}

function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299;
}
