import type { Route } from '../../src/api/route.ts';
import { createServer, type ServerOptions } from '../../src/api/server.ts';
import { openTlsServer } from '../../src/api/tls/tls-server.ts';
import { answerLimits } from '../../src/platform/http/connections.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { plainTracing } from '../../src/platform/observability/tracing.ts';
import type { Certificates } from '../support/certificates.ts';
import { type LogLine, recordLog } from '../support/log.ts';
import { samplesOf } from '../support/metrics-lint.ts';

/** A server with routes that the service does not have, and with nobody who may call a protected one. */
export interface MadeUpServer {
  url: string;
  logLines: LogLine[];
  /** The text of `/metrics`. */
  metrics(): Promise<string>;
  stop(): Promise<void>;
}

/** What a route has that anybody may call. */
export const openRoute = {
  method: 'GET',
  tag: 'Operations',
  summary: 'Made up',
  permission: { none: 'it is made up' },
  idempotencyKey: 'ignored',
  request: {},
  answers: { 200: { description: 'Nothing.' } },
  problems: [],
} as const;

export async function startMadeUpServer(...routes: Route[]): Promise<MadeUpServer> {
  return startMadeUpServerWith({ routes });
}

const noLimit = {
  name: 'requests',
  perMinute: 0,
  take: () => ({ allowed: true, remaining: 1, resetSeconds: 1 }),
  isReached: () => false,
};

/** With TLS, and a certificate of its own. */
export async function startSecureMadeUpServer(
  certificates: Certificates,
  options: Partial<ServerOptions>,
): Promise<MadeUpServer> {
  const name = crypto.randomUUID();
  const settings = await certificates.issue(
    `server-${name}`,
    await certificates.authority(`authority-${name}`),
  );
  const tls = await openTlsServer({ settings, log: recordLog().log, metrics: createMetrics() });
  const server = await startMadeUpServerWith({ ...options, tls });
  tls.stop();
  return server;
}

/** `options` replace those that it would have. */
export async function startMadeUpServerWith(options: Partial<ServerOptions>): Promise<MadeUpServer> {
  const { log, lines } = recordLog();
  const metrics = createMetrics();
  const noAllowances = { take: () => undefined, secondsUntil: () => 0 };
  const server = createServer({
    routes: [],
    authenticate: () => ({ result: 'missing', consumerId: null }),
    attempts: { record: () => {} },
    limits: {
      requests: noLimit,
      failures: undefined,
      unauthenticated: undefined,
      refusals: noLimit,
      allowances: noAllowances,
    },
    ledger: {
      claim: () => Promise.reject(new Error('made-up routes have no keys')),
      isUnfinished: async () => false,
    },
    log,
    metrics,
    tracing: plainTracing,
    trustProxies: [],
    connections: { max: 1000, ...answerLimits },
    tls: undefined,
    isStopping: () => false,
    ...options,
  });
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  return {
    url: options.tls ? url.replace(/^http:/, 'https:') : url,
    logLines: lines,
    metrics: () => metrics.registry.metrics(),
    stop: () => server.close(),
  };
}

/** How many connections were ended, by the metrics. */
export async function endedConnections(
  server: Pick<MadeUpServer, 'metrics'>,
  reason: string,
): Promise<number | undefined> {
  const samples = samplesOf(await server.metrics());
  return samples.find(
    ({ name, labels }) => name === 'handoff_connections_ended_total' && labels['reason'] === reason,
  )?.value;
}
