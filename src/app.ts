import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLedger } from './api/idempotency/ledger.ts';
import { createCursorCodec } from './api/pipeline/cursor.ts';
import type { Route } from './api/route.ts';
import { allRoutes } from './api/routes.ts';
import { createServer, type Server } from './api/server.ts';
import { openTlsServer, type TlsServer } from './api/tls/tls-server.ts';
import { connectCrm } from './connect-crm.ts';
import type { Crm } from './crm/crm.ts';
import { startDeliveries } from './deliveries.ts';
import type { SimulatedOrg, SimulatedPartner } from './embedded/simulators.ts';
import { makeFirstWebhookSecret } from './features/crm-webhooks/secrets.ts';
import { createWebhooks, type Webhooks } from './features/crm-webhooks/webhooks.ts';
import type { Changes } from './features/events/changes.ts';
import { EventFeed } from './features/events/event-feed.ts';
import type { Handoffs } from './features/handoff/handoffs.ts';
import type { WebhookEndpoints } from './features/partner-webhooks/webhook-endpoints.ts';
import type { Copy } from './features/read-copy/copy.ts';
import { cachedMembers, type MemberCache } from './features/records/member-cache.ts';
import { type Connectors, healthOf } from './features/reservations/connectors/connectors.ts';
import type { Reservations } from './features/reservations/reservations.ts';
import { startHandoffs } from './handoffs.ts';
import { type Audit, createAudit } from './identity/audit/audit.ts';
import { type Consumers, createConsumers } from './identity/consumers/consumers.ts';
import { makeFirstConsumers } from './identity/consumers/first-start.ts';
import type { KeySets } from './identity/consumers/keys.ts';
import { checkForLoss, guardAgainstLoss } from './identity/consumers/loss-guard.ts';
import { createRateLimits } from './identity/rate-limits/rate-limits.ts';
import { openConsole } from './open-console.ts';
import { openCopy, openMembers } from './open-copy.ts';
import { connectPartners } from './partners.ts';
import { lockDataDir } from './platform/base/file-lock.ts';
import { version } from './platform/base/version.ts';
import { waitUntilAvailable } from './platform/base/wait-until-available.ts';
import { createAuthenticatedCache, loadCacheKeys } from './platform/cache/authenticated.ts';
import type { SharedCache } from './platform/cache/shared-cache.ts';
import { answerLimits } from './platform/http/connections.ts';
import { createHealth, shareProbe } from './platform/observability/health.ts';
import type { Log } from './platform/observability/log.ts';
import { createMetrics, type Metrics } from './platform/observability/metrics.ts';
import { createOperationsServer } from './platform/observability/operations-server.ts';
import { openTracing, plainTracing, type Tracing } from './platform/observability/tracing.ts';
import { openSecretsManager } from './platform/secrets/secrets.ts';
import { type SecretsManager, SecretsUnavailable } from './platform/secrets/secrets-manager.ts';
import type { Settings, TlsSettings } from './platform/settings/table.ts';
import type { Database } from './platform/store/database.ts';
import { isUnavailable } from './platform/store/failures.ts';
import { migrate } from './platform/store/migrate.ts';
import { startJobs } from './start-jobs.ts';
import { watchChanges } from './watch-changes.ts';

/** The whole service, wired up. */
export interface App {
  /** Waits for the database and the secrets manager, opens the ports, and resolves once requests are answered. */
  start(): Promise<Started>;
  /** Drains, lets the requests in flight finish, and gives everything back. May be called at any time. */
  close(): Promise<void>;
}

export interface Started {
  url: string;
  operationsUrl: string | undefined;
  /** The simulated org, where no real one is configured. */
  org: SimulatedOrg | undefined;
  /** The simulated dining partner, where no real one is configured. */
  diningPartner: SimulatedPartner | undefined;
}

/** What the process around the app does instead of it. */
export interface Surroundings {
  /**
   * One of several processes: their parent has locked the data directory and answers at the metrics port for all of
   * them, with what it reads from these metrics.
   */
  workerMetrics?: Metrics;
}

/** What the parts share while the service is built up and torn down. */
interface Context {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  tracing: Tracing;
  /** What was opened, to be closed last first. */
  opened: AsyncDisposableStack;
  /** Aborted when a stop begins. */
  stopping: AbortSignal;
  /** Ends all connections to the API, whatever is under way on them. */
  cutConnections: () => void;
}

/** Builds the service from its settings: this file alone knows every adapter. */
export function createApp(settings: Settings, log: Log, { workerMetrics }: Surroundings = {}): App {
  const opened = new AsyncDisposableStack();
  const stop = new AbortController();
  const context: Context = {
    settings,
    log,
    metrics: workerMetrics ?? createMetrics(),
    tracing: plainTracing,
    opened,
    stopping: stop.signal,
    cutConnections: () => {},
  };
  let ready = false;
  let starting: Promise<Started> | undefined;

  async function start(): Promise<Started> {
    if (!workerMetrics) await lockOwnDataDir(context);
    const tls = await openTls(context);
    await startTracing(context);
    const operationsUrl = workerMetrics
      ? undefined
      : await openOperationsPort(context, () => ready && !stop.signal.aborted);
    const secrets = await openSecrets(context);
    const cache = await openCache(context, secrets);
    const database = await openDatabase(context);
    const audit = openAudit(context, database);
    const consumers = await loadConsumers(context, { secrets, cache, audit });
    const { org, crm } = await connectCrm({ ...context, secrets, cache, database });
    const connection = openCopy({ ...context, database, crm });
    const found = { secrets, cache, database, consumers, audit, ...connection };
    const { diningPartner, ...features } = await startFeatures(context, found, org);
    const parts = { ...found, ...features };
    const routes = buildRoutes(parts, settings);
    startJobs({ ...context, ...parts, routes });
    const server = buildServer(context, { database, cache, consumers, routes, tls });
    const url = await listen(server, settings);
    ready = true;
    context.metrics.ready.set(stop.signal.aborted ? 0 : 1);
    return { url, operationsUrl, org, diningPartner };
  }

  return {
    start: () => {
      starting ??= start();
      return starting;
    },
    close: async () => {
      // What is still open near the end is cut, so that there is time to save all else.
      const cut = setTimeout(() => context.cutConnections(), (settings.shutdownSeconds - 1) * 1000).unref();
      stop.abort(new Error('the service is stopping'));
      context.metrics.ready.set(0);
      await starting?.catch(() => {});
      // A balancer needs time to see that this replica is no longer ready; until then it still answers.
      if (ready) await sleep(settings.drainSeconds * 1000);
      await opened.disposeAsync();
      clearTimeout(cut);
    },
  };
}

/** What works with the stores and the CRM once they are open. */
async function startFeatures(
  context: Context,
  found: Pick<Parts, 'secrets' | 'cache' | 'database' | 'consumers' | 'crm' | 'copy'>,
  org: SimulatedOrg | undefined,
) {
  const partners = await connectPartners({ ...context, ...found });
  const members = openMembers(context, found.cache, found.copy, org?.settings);
  const handoffs = startHandoffs({ ...context, ...found });
  const changes = await watchChanges({ ...context, ...found, members });
  const webhooks = await openWebhooks(context, { ...found, members, changes });
  const webhookEndpoints = startDeliveries({ ...context, ...found });
  const served = { members, handoffs, changes, webhooks, webhookEndpoints };
  return { ...partners, ...served, ...openConsole({ ...context, ...found }) };
}

async function lockOwnDataDir({ settings, opened }: Context): Promise<void> {
  const lock = await lockDataDir(settings.dataDir, 'handoff serve');
  opened.defer(() => lock.release());
}

/** First, so that an unusable file is reported at once. */
async function openTls({ settings, log, metrics, opened }: Context): Promise<TlsServer | undefined> {
  if (settings.tls.certFile === undefined) return undefined;
  const tls = await openTlsServer({ settings: settings.tls as TlsSettings, log, metrics });
  opened.defer(() => tls.stop());
  return tls;
}

/** Early, so that it is closed late: the last requests are traced too. */
async function startTracing(context: Context): Promise<void> {
  const { environment } = context.settings;
  context.tracing = await openTracing({ env: process.env, log: context.log, version, environment });
  context.opened.defer(() => context.tracing.stop());
}

async function openOperationsPort(context: Context, isReady: () => boolean): Promise<string | undefined> {
  const { settings, metrics, opened } = context;
  if (settings.metricsPort === 0) return undefined;
  const operations = createOperationsServer(metrics.registry, isReady);
  opened.defer(() => operations.close());
  return operations.listen(settings.metricsHost, settings.metricsPort);
}

async function openSecrets({ settings, log, opened }: Context): Promise<SecretsManager> {
  const secrets = guardAgainstLoss(await openSecretsManager(settings, log));
  opened.defer(() => secrets.close());
  return secrets;
}

/** Of the adapters only the chosen one is loaded, here and below: the others would cost memory and time to start. */
async function openCache(context: Context, secrets: SecretsManager): Promise<SharedCache> {
  const { settings, log, metrics, opened, stopping } = context;
  const { redisUrl, environment } = settings;
  if (redisUrl === undefined) {
    const memory = (await import('./platform/cache/memory.ts')).createMemoryCache();
    opened.defer(() => memory.close());
    return memory;
  }
  const { createRedisCache } = await import('./platform/cache/redis.ts');
  const redis = createRedisCache({ url: redisUrl, log });
  opened.defer(() => redis.close());
  const keys = await waitUntilAvailable(() => loadCacheKeys(secrets, environment), {
    what: 'the secrets manager',
    isPassing: (error) => error instanceof SecretsUnavailable,
    signal: stopping,
    log,
  });
  return createAuthenticatedCache({ cache: redis, keys, log, metrics });
}

async function openDatabase({ settings, log, opened, stopping }: Context): Promise<Database> {
  const database = settings.databaseUrl
    ? (await import('./platform/store/postgres.ts')).openPostgres({ url: settings.databaseUrl, log })
    : await (await import('./platform/store/pglite.ts')).openPglite(join(settings.dataDir, 'database'));
  opened.defer(() => database.close());
  await waitUntilAvailable(() => migrate(database), {
    what: 'the database',
    isPassing: isUnavailable,
    signal: stopping,
    log,
  });
  return database;
}

function openAudit({ settings, log, metrics, opened }: Context, database: Database): Audit {
  const audit = createAudit({ database, log, metrics, retentionDays: settings.auditRetentionDays });
  opened.defer(() => audit.stop());
  return audit;
}

async function loadConsumers(
  { settings, log, metrics, opened, stopping }: Context,
  { secrets, cache, audit }: Pick<Parts, 'secrets' | 'cache' | 'audit'>,
): Promise<Consumers> {
  const { environment, secretsDir, dataDir } = settings;
  const { secretsRefreshSeconds: refreshSeconds, graceWindowHours } = settings;
  const consumers = createConsumers({
    secrets,
    log,
    metrics,
    refreshSeconds,
    cache,
    environment,
    audit,
    auditEvents: audit,
    graceWindowHours,
  });
  opened.defer(() => consumers.stop());
  const load = async () => {
    const isFirstStartHelped = secrets.kind === 'file' && !settings.production;
    if (isFirstStartHelped) await makeFirstConsumers({ secrets, consumers, secretsDir, dataDir });
    else await checkForLoss(secrets, audit.knowsOthersThan, 'To start again, run "handoff consumer create".');
    await consumers.start();
  };
  const isPassing = (error: unknown) => error instanceof SecretsUnavailable || isUnavailable(error);
  await waitUntilAvailable(load, { what: 'the secrets manager', isPassing, signal: stopping, log });
  return consumers;
}

async function openWebhooks(
  { settings, log, metrics, opened }: Context,
  { secrets, database, members, changes }: Pick<Parts, 'secrets' | 'database' | 'members' | 'changes'>,
): Promise<Webhooks> {
  const { secretsRefreshSeconds: refreshSeconds, webhookRetentionDays: retentionDays } = settings;
  if (secrets.kind === 'file' && !settings.production) await makeFirstWebhookSecret(secrets, log);
  const webhooks = createWebhooks({
    database,
    secrets,
    log,
    metrics,
    refreshSeconds,
    retentionDays,
    apply: ({ memberId, receivedAt }) => members.drop(memberId, receivedAt),
    onReceived: () => changes?.nudge(),
  });
  opened.defer(() => webhooks.stop());
  await webhooks.start();
  return webhooks;
}

interface Parts extends ReturnType<typeof openConsole> {
  secrets: SecretsManager;
  cache: SharedCache;
  database: Database;
  consumers: Consumers;
  audit: Audit;
  crm: Crm;
  copy: Copy | null;
  connectors: Connectors;
  reservations: Reservations | null;
  members: MemberCache;
  changes: Changes | null;
  webhooks: Webhooks;
  handoffs: Handoffs;
  webhookEndpoints: WebhookEndpoints;
}

function buildRoutes(parts: Parts, { handoff }: Settings): Route[] {
  const { secrets, cache, database, consumers, audit, crm, copy, connectors, reservations } = parts;
  const { members, changes, webhooks, handoffs, webhookEndpoints, console, activity } = parts;
  const health = createHealth(
    {
      ...healthOf(connectors),
      secretsManager: shareProbe(async () => {
        await secrets.checkHealth();
        const { connected: isConnected } = consumers.directory.status();
        return { connected: isConnected };
      }),
      database: shareProbe(connected(() => database.checkHealth())),
      cache: shareProbe(connected(() => cache.checkHealth())),
      handoffs: shareProbe(() => handoffs.checkHealth()),
      ...(changes && { changes: changes.health }),
      ...(copy && { copy: shareProbe(copy.health) }),
    },
    ['crm', 'database'],
  );
  const cursors = createCursorCodec(() => (consumers.keys.loaded as KeySets).cursor);
  const { administration, directory } = consumers;
  const { records } = crm;
  return allRoutes({
    ...{ records, members: cachedMembers(records, members), webhooks, reservations, handoffs },
    ...{ administration, directory, audit, cursors, health, version, console, activity },
    repeatWindowSeconds: handoff.repeatWindowSeconds,
    events: changes && new EventFeed(database),
    webhookEndpoints: changes && webhookEndpoints.administration,
  });
}

interface ServerParts {
  database: Database;
  cache: SharedCache;
  consumers: Consumers;
  routes: readonly Route[];
  tls: TlsServer | undefined;
}

function buildServer(context: Context, { database, cache, consumers, routes, tls }: ServerParts): Server {
  const { settings, log, metrics, tracing, opened, stopping } = context;
  const limits = createRateLimits({ ...settings.rateLimit, cache, metrics });
  opened.defer(() => limits.stop());
  const server = createServer({
    routes,
    authenticate: consumers.authenticate,
    attempts: consumers.attempts,
    limits,
    ledger: createLedger({
      database,
      metrics,
      retentionHours: settings.idempotencyRetentionHours,
      statementsAtOnce: 4,
    }),
    log,
    metrics,
    tracing,
    trustProxies: settings.trustProxies,
    connections: { max: settings.maxConnections, ...answerLimits },
    tls,
    isStopping: () => stopping.aborted,
  });
  context.cutConnections = () => server.server.closeAllConnections();
  opened.defer(() => server.close());
  return server;
}

/** Opens the API port. The framework gives the URL as http, also for a TLS server. */
async function listen(server: Server, { host, port, tls }: Settings): Promise<string> {
  const url = await server.listen({ host, port });
  return tls.certFile ? url.replace(/^http:/, 'https:') : url;
}

/** A probe of a system that only answers or does not. */
function connected(check: () => Promise<void>) {
  return async () => {
    await check();
    return { connected: true };
  };
}
