import { join } from 'node:path';
import { type Audit, createAudit } from '../identity/audit/audit.ts';
import { type Consumers, createConsumers } from '../identity/consumers/consumers.ts';
import { makeFirstConsumers } from '../identity/consumers/first-start.ts';
import { checkForLoss, guardAgainstLoss } from '../identity/consumers/loss-guard.ts';
import type { FieldNames } from '../identity/consumers/permissions.ts';
import { Allowances } from '../identity/rate-limits/allowances.ts';
import { lockDataDir } from '../platform/base/files.ts';
import { version } from '../platform/base/version.ts';
import { waitUntilAvailable } from '../platform/base/waiting.ts';
import { createAuthenticatedCache, loadCacheKeys } from '../platform/cache/authenticated.ts';
import type { SharedCache } from '../platform/cache/shared-cache.ts';
import type { createJobQueue } from '../platform/jobs/job-queue.ts';
import type { Log } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import { createOperationsServer } from '../platform/observability/operations-server.ts';
import { openTracing, type Tracing } from '../platform/observability/tracing.ts';
import { openSecretsManager } from '../platform/secrets/secrets.ts';
import { type SecretsManager, SecretsUnavailable } from '../platform/secrets/secrets-manager.ts';
import type { Settings } from '../platform/settings/table.ts';
import type { Database } from '../platform/store/database.ts';
import { readsSocket, serveReads } from '../platform/store/database-reads.ts';
import { isLocked, isUnavailable } from '../platform/store/failures.ts';
import { migrate } from '../platform/store/migrate.ts';

export interface Stores {
  readonly secrets: SecretsManager;
  readonly cache: SharedCache;
  readonly database: Database;
  readonly createJobQueue: typeof createJobQueue;
}

export interface Process {
  stores: Stores | undefined;
  settings: Settings;
  log: Log;
  metrics: Metrics;
  opened: AsyncDisposableStack;
  stopping: AbortSignal;
  fieldNames: FieldNames;
}

export interface Platform extends Process {
  tracing: Tracing;
  secrets: SecretsManager;
  cache: SharedCache;
  database: Database;
  audit: Audit;
  consumers: Consumers;
  allowances: Allowances;
}

export async function startOperations(
  { settings, metrics, opened }: Process,
  { isWorker, isReady }: { isWorker: boolean; isReady: () => boolean },
): Promise<string | undefined> {
  if (isWorker) return undefined;
  const lock = await lockDataDir(settings.dataDir, 'handoff serve');
  opened.defer(() => lock.release());
  if (settings.metricsPort === 0) return undefined;
  const operations = createOperationsServer(metrics.registry, isReady);
  opened.defer(() => operations.close());
  return operations.listen(settings.metricsHost, settings.metricsPort);
}

export async function openPlatform(own: Process): Promise<Platform> {
  // Early, so that it is closed late: the last requests are traced too.
  const tracing = await startTracing(own);
  const secrets = await openSecrets(own);
  const cache = await openCache(own, secrets);
  const database = await openDatabase(own);
  const { settings, log, metrics, opened } = own;
  const audit = createAudit({ database, log, metrics, retentionDays: settings.auditRetentionDays });
  opened.defer(() => audit.stop());
  const consumers = await loadConsumers(own, { secrets, cache, audit });
  const allowances = new Allowances({
    database,
    log,
    isUsed: () => consumers.directory.newestFirst().some(({ allowance }) => allowance),
  });
  opened.defer(() => allowances.stop());
  await allowances.start();
  return { ...own, tracing, secrets, cache, database, audit, consumers, allowances };
}

async function startTracing({ settings: { environment }, log, opened }: Process): Promise<Tracing> {
  const tracing = await openTracing({ env: process.env, log, version, environment });
  opened.defer(() => tracing.stop());
  return tracing;
}

async function openSecrets({ settings, log, opened, stores }: Process): Promise<SecretsManager> {
  const secrets = guardAgainstLoss(stores?.secrets ?? (await openSecretsManager(settings, log)));
  opened.defer(() => secrets.close());
  return secrets;
}

/** Loads only the chosen adapter, here and below: the others would cost memory and time to start. */
async function openCache(own: Process, secrets: SecretsManager): Promise<SharedCache> {
  const { settings, log, metrics, opened, stopping, stores } = own;
  const { redisUrl, environment } = settings;
  if (stores !== undefined) return stores.cache;
  if (redisUrl === undefined) {
    const memory = (await import('../platform/cache/memory.ts')).createMemoryCache();
    opened.defer(() => memory.close());
    return memory;
  }
  const { createRedisCache } = await import('../platform/cache/redis.ts');
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

async function openDatabase({ settings, log, opened, stopping, stores }: Process): Promise<Database> {
  const database = stores?.database ?? (await openNamed(settings, log));
  opened.defer(() => database.close());
  await waitUntilAvailable(() => migrate(database), {
    what: 'the database',
    isPassing: (error) => isUnavailable(error) || isLocked(error),
    signal: stopping,
    log,
  });
  if (stores === undefined && database.kind === 'pglite') await shareReads(database, settings, log, opened);
  return database;
}

async function shareReads(
  database: Database,
  { dataDir }: Settings,
  log: Log,
  opened: AsyncDisposableStack,
): Promise<void> {
  try {
    const reads = await serveReads(database, join(dataDir, readsSocket));
    opened.defer(() => reads.close());
  } catch (error) {
    log.warn({ err: error }, "commands can't read the embedded database while the gateway runs");
  }
}

async function openNamed({ databaseUrl, dataDir }: Settings, log: Log): Promise<Database> {
  if (databaseUrl === undefined)
    return (await import('../platform/store/pglite.ts')).openPglite(join(dataDir, 'database'));
  return (await import('../platform/store/postgres.ts')).openPostgres({ url: databaseUrl, log });
}

async function loadConsumers(
  { settings, log, metrics, opened, stopping, fieldNames }: Process,
  { secrets, cache, audit }: Pick<Platform, 'secrets' | 'cache' | 'audit'>,
): Promise<Consumers> {
  const { secretsDir, dataDir, environment, graceWindowHours } = settings;
  const consumers = createConsumers({
    secrets,
    log,
    metrics,
    refreshSeconds: settings.secretsRefreshSeconds,
    cache,
    environment,
    graceWindowHours,
    audit,
    auditEvents: audit,
    fieldNames,
  });
  opened.defer(() => consumers.stop());
  const load = async () => {
    const isFirstStartHelped = secrets.kind === 'file' && !settings.production;
    if (isFirstStartHelped) await makeFirstConsumers({ secrets, consumers, secretsDir, dataDir });
    else
      await checkForLoss(secrets, audit.knowsOthersThan, 'To start again, run "handoff consumers create".');
    await consumers.start();
  };
  const isPassing = (error: unknown) => error instanceof SecretsUnavailable || isUnavailable(error);
  await waitUntilAvailable(load, { what: 'the secrets manager', isPassing, signal: stopping, log });
  return consumers;
}
