import { remainingMs } from '../../base/call.ts';
import type { Span } from '../../base/span.ts';
import { traceHeaders } from '../../base/trace-context.ts';
import { type Http, HttpFailure } from '../../http/http.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { AccessToken } from '../token/access-token.ts';
import { createTokenGauges } from '../token/token-gauges.ts';
import { failureOf } from './errors.ts';
import { CrmFailure } from './failure.ts';
import type { Quota } from './quota.ts';
import type { CrmAnswer, CrmRequest, SendWithToken } from './request.ts';

export interface TransportOptions {
  http: Http;
  timeoutMs: number;
  quota: Quota;
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
export function createTransport(options: TransportOptions): SendWithToken {
  const { http, quota, metrics } = options;
  const noteToken = createTokenGauges(metrics);
  return async (draft, call, token) => {
    const request = draft();
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
      if (answer.status < 200 || answer.status > 299) throw failureOf(answer, request);
      return answer;
    } catch (error) {
      outcome = error instanceof CrmFailure ? error.kind : 'error';
      throw error;
    } finally {
      const ms = performance.now() - started;
      call.crmMs += ms;
      metrics.crmCallDuration.observe({ operation: request.operation, outcome }, ms / 1000);
      span.end(outcome === 'ok' ? undefined : outcome);
    }
  };
}

async function exchange(
  http: Http,
  request: CrmRequest,
  token: AccessToken,
  { timeoutMs, span }: { timeoutMs: number; span: Span },
): Promise<CrmAnswer> {
  const { method, path, body } = request;
  const answer = await http
    .exchange({
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
    })
    .catch((error: unknown) => Promise.reject(asCrmFailure(error, request)));
  return {
    status: answer.status,
    headers: answer.headers,
    body: parseBody(answer.body, answer.status, request),
  };
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
    if (status < 200 || status > 299) return text.slice(0, 1000);
    const outcomeUnknown = request.effect !== 'read';
    throw new CrmFailure('broken', `an answer with status ${status} is no JSON`, { status, outcomeUnknown });
  }
}
