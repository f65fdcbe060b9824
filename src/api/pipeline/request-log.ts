import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Span } from '../../base/span.ts';
import { readTraceContext } from '../../base/trace-context.ts';
import type { AttemptRecorder } from '../../consumers/attempts.ts';
import type { Log } from '../../observability/log.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { Tracing } from '../../observability/tracing.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The request in its trace; there from the first hook on. */
    span: Span | undefined;
    observation: Observation | undefined;
  }
}

interface Observers {
  log: Log;
  metrics: Metrics;
  tracing: Tracing;
  attempts: AttemptRecorder;
}

/** Methods by their own names; Node lets many more pass, and a caller must not choose what we count by. */
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

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

/** A request that the framework refuses before any hook: its path is none. */
export function observeRefused(request: FastifyRequest, reply: FastifyReply, observers: Observers): void {
  new Observation(request, reply, observers).workDone();
}

/** Follows one request to its end. */
class Observation {
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #observers: Observers;
  readonly #span: Span;
  readonly #startedAt = performance.now();
  #isWorkDone = false;
  #isClosed = false;

  constructor(request: FastifyRequest, reply: FastifyReply, observers: Observers) {
    this.#request = request;
    this.#reply = reply;
    this.#observers = observers;
    this.#span = startSpan(request, observers.tracing);
    request.span = this.#span;
    observers.metrics.httpActiveRequests.level += 1;
    reply.raw.once('close', () => {
      this.#isClosed = true;
      if (this.#isWorkDone) this.#end();
    });
  }

  /** The answer is there, whether or not anybody still wants it. */
  workDone(): void {
    if (this.#isWorkDone) return;
    this.#isWorkDone = true;
    if (this.#isClosed) this.#end();
  }

  #end(): void {
    const { metrics, attempts } = this.#observers;
    const ms = performance.now() - this.#startedAt;
    // The pattern, never the path itself: a path holds identifiers. The framework makes the options anew when asked.
    const route = this.#request.routeOptions.url ?? 'none';
    metrics.httpActiveRequests.level -= 1;
    metrics.httpRequestDuration.observe(
      {
        http_request_method: methodOf(this.#request),
        http_route: route,
        http_response_status_code: this.#reply.statusCode,
      },
      ms / 1000,
    );
    endSpan(this.#span, this.#request, this.#reply);
    const endpoint = `${this.#request.method} ${route}`;
    const { attempt } = this.#request;
    if (attempt !== undefined) {
      const { result, consumerId, timestamp } = attempt;
      const request_id = this.#request.id;
      attempts.record({ consumer_id: consumerId, endpoint, result, timestamp, request_id });
    }
    this.#log(ms, endpoint);
  }

  #log(ms: number, endpoint: string): void {
    const { id, attempt, call } = this.#request;
    this.#observers.log.info(
      {
        request_id: id,
        trace_id: this.#span.traceId,
        span_id: this.#span.spanId,
        endpoint,
        consumer_id: attempt?.consumerId,
        result: attempt?.result,
        timestamp: attempt?.timestamp,
        status: this.#reply.statusCode,
        duration_ms: round(ms),
        crm_ms: call && round(call.crmMs),
        hung_up: this.#reply.raw.writableFinished ? undefined : true,
      },
      'request',
    );
  }
}

/** Named by OpenTelemetry's conventions for HTTP servers, but without path and query: they hold identifiers. */
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

function endSpan(span: Span, request: FastifyRequest, { statusCode: status }: FastifyReply): void {
  const { consumer } = request;
  span.set({
    'http.response.status_code': status,
    ...(consumer && { 'handoff.consumer_id': consumer.id }),
  });
  span.end(status >= 500 ? String(status) : undefined);
}

function methodOf({ method }: FastifyRequest): string {
  return knownMethods.has(method) ? method : '_OTHER';
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
