import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Attempt, AttemptRecorder, AttemptResult, AttemptSum } from '../../identity/audit/attempt.ts';
import { apiKeyPattern, maxCredentialLength } from '../../identity/consumers/credentials.ts';
import { modeOf } from '../../platform/base/call.ts';
import { monotonicMs, randomUUID } from '../../platform/base/chance.ts';
import { readTraceContext, type Span } from '../../platform/base/span.ts';
import { escapeInvisible, startOf } from '../../platform/base/text.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { Tracing } from '../../platform/observability/tracing.ts';
import type { Limits } from './rate-limit.ts';
import { userAgentOf } from './request-head.ts';

declare module 'fastify' {
  interface FastifyRequest {
    span: Span | undefined;
    observation: Observation | undefined;
  }
}

interface Observers {
  log: Log;
  metrics: Metrics;
  tracing: Tracing;
  attempts: AttemptRecorder;
  limits: Pick<Limits, 'refusals'>;
}

/** Counted where the caller hung up before it had its answer; the service never answers with it. */
const hungUpStatus = 499;

const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

const acceptableRequestId = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * One log line, one measurement, one span and (on protected routes) one recorded attempt for each request, once it is
 * over: its work is done, and the answer is out or the caller has hung up. The framework's own hook for that does not
 * run in the latter case.
 */
export function observeRequests(app: FastifyInstance, observers: Observers): void {
  app.decorateRequest('span');
  app.decorateRequest('observation');
  app.addHook('onRequest', (request, reply, done) => {
    request.observation = new Observation(request, reply, observers);
    done();
  });
  app.addHook('onSend', (request, _reply, payload, done) => {
    request.observation?.workDone();
    done(null, payload);
  });
}

export function observeRefused(request: FastifyRequest, reply: FastifyReply, observers: Observers): void {
  new Observation(request, reply, observers).workDone();
}

class Observation {
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #observers: Observers;
  readonly #span: Span;
  readonly #startedAt = monotonicMs();
  #isWorkDone = false;
  #isClosed = false;

  constructor(request: FastifyRequest, reply: FastifyReply, observers: Observers) {
    this.#request = request;
    this.#reply = reply;
    this.#observers = observers;
    this.#span = startSpan(request, observers.tracing);
    request.span = this.#span;
    observers.metrics.httpActiveRequests.level += 1;
    // It comes once; to listen for one time only costs more.
    reply.raw.on('close', () => {
      this.#isClosed = true;
      if (this.#isWorkDone) this.#end();
    });
  }

  workDone(): void {
    if (this.#isWorkDone) return;
    this.#isWorkDone = true;
    if (this.#isClosed) this.#end();
  }

  get #hasHungUp(): boolean {
    return !this.#reply.raw.writableFinished;
  }

  #end(): void {
    const { metrics, attempts } = this.#observers;
    const ms = monotonicMs() - this.#startedAt;
    // The pattern, never the path itself: a path holds identifiers. Each access makes the framework build new options.
    const route = this.#request.routeOptions.url ?? 'none';
    metrics.httpActiveRequests.level -= 1;
    if (this.#request.isPassedOn) return endSpan(this.#span, this.#request, this.#reply, this.#hasHungUp);
    this.#measure(route, ms);
    endSpan(this.#span, this.#request, this.#reply, this.#hasHungUp);
    const endpoint = `${this.#request.method} ${route}`;
    const attempt = this.#attempt(endpoint);
    if (attempt !== undefined) attempts.record(attempt);
    this.#log(ms, endpoint, attempt);
  }

  /** Errors that test consumers bring about are no errors of the service: alerts and activity leave them out. */
  #measure(route: string, ms: number): void {
    const { metrics } = this.#observers;
    const http_response_status_code = this.#hasHungUp ? hungUpStatus : this.#reply.statusCode;
    if (this.#isTest) return metrics.testRequests.inc({ http_response_status_code });
    const http_request_method = methodOf(this.#request);
    metrics.httpRequestDuration.observe(
      { http_request_method, http_route: route, http_response_status_code },
      ms / 1000,
    );
  }

  get #isTest(): boolean {
    return modeOf(this.#request.consumer?.id) === 'test';
  }

  #attempt(endpoint: string): Attempt | undefined {
    const { attempt, id, headers } = this.#request;
    if (attempt === undefined) return undefined;
    const { consumerId, credential, result, timestamp, address } = attempt;
    const { statusCode: status } = this.#reply;
    // Named one by one: to take the rest of an object costs as much as all of this.
    return {
      consumer_id: consumerId,
      endpoint,
      result,
      timestamp,
      address,
      sum: attempt.sum ?? this.#sumOfRefusals(consumerId, result, status),
      request_id: id,
      user_agent: userAgentOf(headers),
      person: attempt.person ?? null,
      api_key: publicKeyIn(credential === undefined ? headers['x-api-key'] : apiKeyIn(credential)),
      status,
    };
  }

  /** The sum for an authenticated but refused request; undefined for others, and while the consumer has few refusals. */
  #sumOfRefusals(consumerId: string | null, result: AttemptResult, status: number): AttemptSum | undefined {
    // Where no credentials are needed, those from an address that is not theirs are not refused.
    const isRefused = status === 403 || status === 429 || result === 'address';
    if (consumerId === null || !isRefused) return undefined;
    const { allowed } = this.#observers.limits.refusals.take(consumerId);
    return allowed ? undefined : { by: 'consumer', name: consumerId };
  }

  #log(ms: number, endpoint: string, attempt: Attempt | undefined): void {
    const { id, call } = this.#request;
    this.#observers.log.info(
      {
        request_id: id,
        trace_id: this.#span.traceId,
        span_id: this.#span.spanId,
        endpoint,
        consumer_id: attempt?.consumer_id,
        mode: this.#isTest ? 'test' : undefined,
        address: attempt?.address,
        user_agent: attempt?.user_agent,
        result: attempt?.result,
        reason: this.#request.signatureFault,
        timestamp: attempt?.timestamp,
        status: this.#reply.statusCode,
        duration_ms: round(ms),
        crm_ms: call && round(call.crmMs),
        hung_up: this.#hasHungUp || undefined,
      },
      'request',
    );
  }
}

const apiKeyExpression = new RegExp(`^${apiKeyPattern}$`);

const shorterThanSecrets = 16;
/** Characters that are kept of a text with escapes. */
const maxShownKey = 64;

/** The header if it looks like an API key; else only its beginning: it may be a secret in the wrong header. */
function publicKeyIn(header: string | string[] | undefined): string | null {
  const text = String(header ?? '');
  if (text === '') return null;
  const isKey = text.length <= maxCredentialLength && apiKeyExpression.test(text);
  if (isKey) return text;
  const shown = text.length <= shorterThanSecrets ? text : `${startOf(text, 8)}…`;
  return startOf(escapeInvisible(shown), maxShownKey);
}

/** The API key; undefined for the name of a public key, which contains a slash. */
function apiKeyIn(credential: string | undefined): string | undefined {
  return credential?.includes('/') ? undefined : credential;
}

function startSpan(request: FastifyRequest, tracing: Tracing): Span {
  return tracing.startRequest(readTraceContext(request.headers), () => {
    const { url: route } = request.routeOptions;
    const method = methodOf(request);
    return {
      name: route === undefined ? method : `${method} ${route}`,
      attributes: {
        'http.request.method': method,
        'url.scheme': request.protocol,
        ...(route !== undefined && { 'http.route': route }),
        'handoff.request_id': request.id,
      },
    };
  });
}

function endSpan(
  span: Span,
  request: FastifyRequest,
  { statusCode: status }: FastifyReply,
  hungUp: boolean,
): void {
  const { consumer } = request;
  span.set({ 'http.response.status_code': status });
  if (consumer) span.set({ 'handoff.consumer_id': consumer.id });
  span.end(status >= 500 && !hungUp ? String(status) : undefined);
}

function methodOf({ method }: FastifyRequest): string {
  return knownMethods.has(method) ? method : '_OTHER';
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/** The caller's X-Request-Id where it is acceptableRequestId, else a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && acceptableRequestId.test(given) ? given : randomUUID();
}
