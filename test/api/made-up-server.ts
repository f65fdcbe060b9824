import type { Route } from '../../src/api/route.ts';
import { createServer } from '../../src/api/server.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { plainTracing } from '../../src/observability/tracing.ts';
import { type LogLine, recordLog } from '../support/log.ts';

/** A server with routes that the service does not have, and with nobody who may call a protected one. */
export interface MadeUpServer {
  url: string;
  logLines: LogLine[];
  stop(): Promise<void>;
}

export async function startMadeUpServer(...routes: Route[]): Promise<MadeUpServer> {
  const { log, lines } = recordLog();
  const server = createServer({
    routes,
    authenticate: () => ({ result: 'missing', consumerId: null }),
    attempts: { record: () => {} },
    limits: { requests: undefined, failures: undefined },
    ledger: { run: () => Promise.reject(new Error('made-up routes have no keys')) },
    log,
    metrics: createMetrics(),
    tracing: plainTracing,
    trustProxies: [],
    tls: undefined,
    isStopping: () => false,
  });
  return {
    url: await server.listen({ host: '127.0.0.1', port: 0 }),
    logLines: lines,
    stop: () => server.close(),
  };
}
