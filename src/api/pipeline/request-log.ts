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
    /** The request in its trace; there from the first hook on. */
    span: Span | undefined;
    /** To be called when the answer is there, whether or not anybody still wants it. */
    workDone: (() => void) | undefined;
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
  app.decorateRequest('workDone');
  app.addHook('onRequest', async (request, reply) => void follow(request, reply, observers));
  app.addHook('onSend', async (request) => request.workDone?.());
}

/** A request that the framework refuses before any hook: its path is none. */
export function observeRefused(request: FastifyRequest, reply: FastifyReply, observers: Observers): void {
  void follow(request, reply, observers);
  request.workDone?.();
}

/** Begins at once; what is awaited is the end of the request. */
async function follow(request: FastifyRequest, reply: FastifyReply, observers: Observers): Promise<void> {
  const { metrics, tracing } = observers;
  const startedAt = performance.now();
  const span = startSpan(request, tracing);
  request.span = span;
  metrics.httpActiveRequests.inc();
  const work = new Promise<void>((resolve) => {
    request.workDone = resolve;
  });
  const connection = new Promise<void>((resolve) => void reply.raw.once('close', resolve));
  await Promise.all([work, connection]);
  metrics.httpActiveRequests.dec();
  observe({ request, reply, span, ms: performance.now() - startedAt }, observers);
}

interface Done {
  request: FastifyRequest;
  reply: FastifyReply;
  span: Span;
  /** From the request's headers to the end of its answer. */
  ms: number;
}

function observe({ request, reply, span, ms }: Done, { log, metrics, attempts }: Observers): void {
  // The pattern, never the path itself: a path holds identifiers, and a metric must have few labels.
  const route = request.routeOptions.url;
  const { statusCode: status } = reply;
  recordAttempt(request, `${request.method} ${route}`, attempts);
  metrics.httpRequestDuration.observe(
    {
      http_request_method: methodOf(request),
      http_route: route ?? 'none',
      http_response_status_code: status,
    },
    ms / 1000,
  );
  endSpan(span, request, reply);
  log.info(
    {
      request_id: request.id,
      trace_id: span.traceId,
      span_id: span.spanId,
      consumer_id: request.consumer?.id,
      method: request.method,
      route,
      status,
      duration_ms: round(ms),
      crm_ms: request.call && round(request.call.crmMs),
      ...(!reply.raw.writableFinished && { hung_up: true }),
    },
    'request',
  );
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
