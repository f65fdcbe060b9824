import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Span } from '../../base/span.ts';
import { readTraceContext } from '../../base/trace-context.ts';
import type { AttemptRecorder } from '../../consumers/attempts.ts';
import type { Log } from '../../observability/log.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { Tracing } from '../../observability/tracing.ts';
import { recordAttempt } from './authentication.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The request in its trace; undefined only where the framework refused it before any hook. */
    span: Span | undefined;
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
 * over.
 */
export function observeRequests(app: FastifyInstance, observers: Observers): void {
  const { log, metrics, tracing, attempts } = observers;
  app.decorateRequest('span');
  app.addHook('onRequest', async (request) => {
    request.span = startSpan(request, tracing);
    metrics.httpActiveRequests.inc();
  });
  app.addHook('onResponse', async (request, reply) => {
    // The pattern, never the path itself: a path holds identifiers, and a metric must have few labels.
    const route = request.routeOptions.url;
    const { statusCode: status, elapsedTime } = reply;
    recordAttempt(request, `${request.method} ${route}`, attempts);
    metrics.httpRequestDuration.observe(
      {
        http_request_method: methodOf(request),
        http_route: route ?? 'none',
        http_response_status_code: status,
      },
      elapsedTime / 1000,
    );
    if (request.span !== undefined) {
      metrics.httpActiveRequests.dec();
      endSpan(request.span, request, reply);
    }
    log.info(
      {
        request_id: request.id,
        trace_id: request.span?.traceId,
        span_id: request.span?.spanId,
        consumer_id: request.consumer?.id,
        method: request.method,
        route,
        status,
        duration_ms: round(elapsedTime),
        crm_ms: request.call && round(request.call.crmMs),
      },
      'request',
    );
  });
}

/** Named by OpenTelemetry's conventions for HTTP servers, but without path and query: they hold identifiers. */
function startSpan(request: FastifyRequest, tracing: Tracing): Span {
  const { url: route } = request.routeOptions;
  const method = methodOf(request);
  const name = route === undefined ? method : `${method} ${route}`;
  return tracing.startRequest(name, readTraceContext(request.headers), {
    'http.request.method': method,
    'url.scheme': request.protocol,
    ...(route !== undefined && { 'http.route': route }),
    'handoff.request_id': request.id,
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
