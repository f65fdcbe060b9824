import type { FastifyInstance } from 'fastify';
import type { AttemptRecorder } from '../../consumers/attempts.ts';
import type { Log } from '../../observability/log.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { recordAttempt } from './authentication.ts';

interface Observers {
  log: Log;
  metrics: Metrics;
  attempts: AttemptRecorder;
}

/** One log line, one measurement and (on protected routes) one recorded attempt for each request, once it is over. */
export function observeRequests(app: FastifyInstance, { log, metrics, attempts }: Observers): void {
  app.addHook('onResponse', async (request, reply) => {
    // The pattern, never the path itself: a path holds identifiers, and a metric must have few labels.
    const route = request.routeOptions.url;
    const { statusCode: status, elapsedTime } = reply;
    recordAttempt(request, `${request.method} ${route}`, attempts);
    metrics.httpRequestDuration.observe(
      {
        http_request_method: request.method,
        http_route: route ?? 'none',
        http_response_status_code: status,
      },
      elapsedTime / 1000,
    );
    log.info(
      {
        request_id: request.id,
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

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
