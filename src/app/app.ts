import type { AddressInfo } from 'node:net';
import { createHousekeeping } from '../api/idempotency/housekeeping.ts';
import { createLedger } from '../api/idempotency/ledger.ts';
import { createReconcile } from '../api/pipeline/run-route.ts';
import type { Route } from '../api/route.ts';
import { createCursorCodec } from '../api/routes/page.ts';
import { createServer, type Server, type ServerOptions } from '../api/server.ts';
import { openTlsServer, type TlsServer } from '../api/tls/tls-server.ts';
import { createDatabaseBudgetStore } from '../crm/budget/shared-bucket.ts';
import { type Crm, createCrm } from '../crm/crm.ts';
import { orgSimulator, type SimulatedOrg } from '../crm/simulated-org.ts';
import type { Core, Started as StartedFeature } from '../feature.ts';
import { features } from '../features.ts';
import {
  bearerTokens,
  liveOnly,
  sessions as peopleSessions,
  withSessions,
  withTokens,
} from '../identity/consumers/authentication.ts';
import type { KeySets } from '../identity/consumers/keys.ts';
import { createRateLimits } from '../identity/rate-limits/rate-limits.ts';
import { clearTimeout, setTimeout, sleep } from '../platform/base/chance.ts';
import { Offers } from '../platform/base/offers.ts';
import { waitUntilAvailable } from '../platform/base/waiting.ts';
import { answerLimits } from '../platform/http/connections.ts';
import { createJobQueue, type Job } from '../platform/jobs/job-queue.ts';
import { createHealth, type Probe, shareProbe } from '../platform/observability/health.ts';
import type { Log } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import type { CrmSettings, Settings, TlsSettings } from '../platform/settings/table.ts';
import { type Simulated, withSimulated } from '../platform/simulators/simulator.ts';
import { createDatabaseLocks } from '../platform/store/database-locks.ts';
import { listOf, type Resources, resourcesOf } from '../records/mapping.ts';
import { testWorlds } from '../records/offers.ts';
import { fieldNamesOf } from '../records/shown-fields.ts';
import { createAllMetrics } from './metrics.ts';
import { openPlatform, type Platform, type Process, type Stores, startOperations } from './open-platform.ts';
import { allRoutes } from './routes.ts';
import { resourcesFor } from './settings.ts';

interface Connected {
  crm: Crm;
  resources: Resources;
  org: SimulatedOrg | undefined;
}

async function connectCrm(platform: Platform): Promise<Connected> {
  const { settings, opened, secrets, cache, database, consumers } = platform;
  const { environment } = settings;
  const org = await orgSimulator.start(settings, secrets, opened);
  const withOrg = withSimulated(settings, org);
  const resources = resourcesFor(withOrg);
  const crm = createCrm({
    ...(withOrg.crm as CrmSettings),
    ...platform,
    resources,
    environment,
    crmShareOf: (id) => consumers.directory.consumer(id)?.crmShare,
    spareLocks: createDatabaseLocks(database),
    // A process with a cache of its own must not forget with a restart what was spent.
    ...(cache.kind === 'memory' && { ownBudgetStore: createDatabaseBudgetStore(database, environment) }),
  });
  opened.defer(() => crm.stop());
  await crm.start();
  return { crm, resources, org };
}

export interface Started {
  url: string;
  operationsUrl: string | undefined;
  org: SimulatedOrg | undefined;
  simulated: Readonly<Record<string, Simulated>>;
}

export interface Surroundings {
  /**
   * Set in each of several processes: their parent has locked the data directory and answers at the metrics port for all
   * of them, with what it reads from these metrics.
   */
  workerMetrics?: Metrics;
  stores?: Stores;
}

export function createApp(settings: Settings, log: Log, { workerMetrics, stores }: Surroundings = {}) {
  const opened = new AsyncDisposableStack();
  const stop = new AbortController();
  const metrics = workerMetrics ?? createAllMetrics();
  let resources = resourcesOf();
  const fieldNames = fieldNamesOf(() => listOf(resources));
  const own: Process = { stores, settings, log, metrics, opened, stopping: stop.signal, fieldNames };
  let server: Server | undefined;
  let ready = false;
  let publicUrl = settings.publicUrl ?? '';
  let starting: Promise<Started> | undefined;

  async function start(): Promise<Started> {
    // First, so that an unusable file is reported at once.
    const tls = await openTls(own);
    const operationsUrl = await startOperations(own, {
      isWorker: workerMetrics !== undefined,
      isReady: () => ready && !stop.signal.aborted,
    });
    const platform = await openPlatform(own);
    const { crm, org, resources: mapped } = await connectCrm(platform);
    resources = mapped;
    const core: Core = {
      ...platform,
      settings: withSimulated(settings, org),
      crm,
      resources,
      records: crm.records,
      offers: new Offers(),
      publicUrl: () => publicUrl,
      cursors: createCursorCodec(() => (platform.consumers.keys.loaded as KeySets).cursor),
      simulated: org ? { crm: org } : {},
    };
    const { started, simulated } = await startFeatures(core);
    const routes = routesOf(core, started);
    startJobs(core, routes, [...started.values()], stores?.createJobQueue);
    server = buildServer(platform, { tls, ...authenticationOf(core, routes) });
    const url = await listen(server, settings);
    publicUrl ||= ownUrl(server, settings);
    ready = true;
    metrics.ready.set(stop.signal.aborted ? 0 : 1);
    return { url, operationsUrl, org, simulated };
  }

  return {
    start: (): Promise<Started> => {
      starting ??= start();
      return starting;
    },
    close: async (): Promise<void> => {
      // Connections that are still open near the end are cut, so that there is time to save all else.
      const cut = setTimeout(
        () => server?.server.closeAllConnections(),
        (settings.shutdownSeconds - 1) * 1000,
      ).unref();
      stop.abort(new Error('the service is stopping'));
      metrics.ready.set(0);
      await starting?.catch(() => {});
      // A balancer needs time to see that this replica is no longer ready; until then it still answers.
      if (ready) await sleep(settings.drainSeconds * 1000);
      await opened.disposeAsync();
      clearTimeout(cut);
    },
  };
}

export type App = ReturnType<typeof createApp>;

async function openTls({ settings, log, metrics, opened }: Process): Promise<TlsServer | undefined> {
  if (settings.tls.certFile === undefined) return undefined;
  const tls = await openTlsServer({ settings: settings.tls as TlsSettings, log, metrics });
  opened.defer(() => tls.stop());
  return tls;
}

async function startFeatures(platform: Core) {
  const started = new Map<string, StartedFeature>();
  let core = platform;
  for (const { name, simulator, start } of features) {
    const simulated = await simulator?.start(core.settings, core.secrets, core.opened);
    if (simulator && simulated) {
      const settings = withSimulated(core.settings, simulated);
      core = { ...core, settings, simulated: { ...core.simulated, [simulator.name]: simulated } };
    }
    const parts = (await start?.(core)) ?? {};
    started.set(name, parts);
    if (parts.records !== undefined) core = { ...core, records: parts.records };
  }
  return { started, simulated: core.simulated };
}

function routesOf(core: Core, started: ReadonlyMap<string, StartedFeature>): Route[] {
  const all = [...started.values()];
  return allRoutes({
    parts: new Map([...started].map(([name, { routes }]) => [name, routes])),
    cursors: core.cursors,
    health: createHealth(probesOf(core, all), ['crm', 'database']),
    schemaVersion: () => core.crm.schema.version,
    home: all.find(({ home }) => home !== undefined)?.home ?? '/v1/docs',
  });
}

type Authenticating = Pick<ServerOptions, 'tokens' | 'sessions' | 'authenticate' | 'routes'>;

function authenticationOf({ offers, consumers }: Core, routes: readonly Route[]): Authenticating {
  const tokens = offers.find(bearerTokens);
  const sessions = offers.find(peopleSessions);
  const authenticate = withSessions(withTokens(consumers.authenticate, tokens), sessions);
  if (offers.find(testWorlds)) return { tokens, sessions, authenticate, routes };
  const forLive = routes.map((route) =>
    route.form ? { ...route, form: { authenticate: liveOnly(route.form.authenticate) } } : route,
  );
  return { tokens, sessions, authenticate: liveOnly(authenticate), routes: forLive };
}

function probesOf(
  { crm, secrets, consumers, database, cache }: Core,
  started: readonly StartedFeature[],
): Record<string, Probe> {
  return {
    // It coalesces its probes itself, and every call counts as one.
    crm: async () => ({ ...(await crm.health.check()) }),
    secretsManager: shareProbe(async () => {
      await secrets.checkHealth();
      const { connected: isConnected } = consumers.directory.status();
      return { connected: isConnected };
    }),
    database: shareProbe(connected(() => database.checkHealth())),
    cache: shareProbe(connected(() => cache.checkHealth())),
    ...(Object.assign({}, ...started.map(({ health }) => health)) as Record<string, Probe>),
  };
}

function connected(check: () => Promise<void>) {
  return async () => {
    await check();
    return { connected: true };
  };
}

function buildServer(
  platform: Platform,
  { tls, tokens, sessions, authenticate, routes }: Authenticating & Pick<ServerOptions, 'tls'>,
): Server {
  const { settings, metrics, opened, stopping, database, consumers } = platform;
  const limits = createRateLimits({ ...platform, ...settings.rateLimit });
  opened.defer(() => limits.stop());
  const server = createServer({
    ...platform,
    routes,
    authenticate,
    tokens,
    sessions,
    attempts: consumers.attempts,
    limits: { ...limits, allowances: platform.allowances },
    ledger: createLedger({
      database,
      metrics,
      retentionHours: settings.idempotencyRetentionHours,
      statementsAtOnce: 4,
    }),
    trustProxies: settings.trustProxies,
    connections: { max: settings.maxConnections, ...answerLimits },
    tls,
    isStopping: () => stopping.aborted,
  });
  opened.defer(() => server.close());
  return server;
}

async function listen(server: Server, { host, port, tls }: Settings): Promise<string> {
  const url = await server.listen({ host, port });
  return tls.certFile ? url.replace(/^http:/, 'https:') : url;
}

function ownUrl(server: Server, { host, tls }: Settings): string {
  const [{ port }] = server.addresses() as [AddressInfo];
  const name = host.includes(':') ? `[${host}]` : host;
  return `${tls.certFile ? 'https' : 'http'}://${name}:${port}`;
}

function startJobs(
  core: Core,
  routes: readonly Route[],
  started: readonly StartedFeature[],
  create: typeof createJobQueue = createJobQueue,
): void {
  const { log, opened, stopping } = core;
  const ofFeatures = started.flatMap((feature) => feature.jobs ?? []);
  const jobs = create({ ...core, jobs: [...platformJobs(core, routes), ...ofFeatures] });
  opened.defer(() => jobs.stop());
  const wait = { what: 'the job queue', isPassing: () => true, signal: stopping, log };
  waitUntilAvailable(() => jobs.start(), wait).catch(() =>
    log.debug({}, 'the service stopped before the jobs were started'),
  );
}

function platformJobs(
  { settings, log, database, audit, crm, allowances, consumers: { directory } }: Core,
  routes: readonly Route[],
): Job[] {
  const { idempotencyRetentionHours: retentionHours, auditRetentionDays } = settings;
  const reconcile = createReconcile(routes);
  return [
    {
      name: 'refresh-crm-token',
      cron: '* * * * *',
      steps: { token: () => crm.tokens.refreshIfDue() },
      // They fill the minute until the next check.
      retries: 5,
    },
    {
      name: 'clear-idempotency-claims',
      cron: '*/10 * * * *',
      steps: createHousekeeping({ database, log, retentionHours, reconcile }),
    },
    {
      name: 'compact-allowances',
      cron: '27 * * * *',
      steps: { allowances: () => allowances.compact() },
    },
    {
      name: 'clear-authentication-attempts',
      cron: '17 * * * *',
      steps: { attempts: (signal) => audit.deleteOldAttempts(auditRetentionDays, signal) },
    },
    {
      name: 'clear-audit-events',
      cron: '12 * * * *',
      steps: {
        events: audit.deleteOldEvents,
        networks: audit.deleteOldNetworks,
        uses: async (signal) => {
          // All keys of consumers that couldn't be read would seem to be gone.
          if (directory.status().connected) await audit.deleteOldUses(directory.newestFirst(), signal);
        },
      },
    },
  ];
}
