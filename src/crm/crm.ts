import { wallMs } from '../platform/base/chance.ts';
import { Listeners } from '../platform/base/concurrency.ts';
import type { Locks } from '../platform/base/lock.ts';
import type { SharedCache } from '../platform/cache/shared-cache.ts';
import { createHttp, type Http } from '../platform/http/http.ts';
import type { Log } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import type { SecretsManager } from '../platform/secrets/secrets-manager.ts';
import type { CrmSettings } from '../platform/settings/table.ts';
import { type Resources, resourcesOf } from '../records/mapping.ts';
import { queryPath } from './batching/find.ts';
import { limitsOf } from './budget/bucket.ts';
import { CallBudget } from './budget/call-budget.ts';
import { CallQueue } from './budget/call-queue.ts';
import { type BudgetStore, createCacheBudgetStore } from './budget/shared-bucket.ts';
import { CrmHealth, userIdBy } from './crm-health.ts';
import { OrgSchema } from './org-schema.ts';
import { createChangeSource } from './read-changes.ts';
import { CrmClient, type OnMetered } from './rest/rest-client.ts';
import { createSalesforceRecords, type OnMissing } from './salesforce-records.ts';
import { ForwardedBatches } from './scheduling/forwarded-batches.ts';
import { Scheduler } from './scheduling/scheduler.ts';
import { hashConnection } from './token/access-token.ts';
import { Backoff } from './token/backoff.ts';
import { AssertionSigner, type OnKey } from './token/jwt.ts';
import { createTokenEndpoint } from './token/token-endpoint.ts';
import { TokenProvider } from './token/token-provider.ts';
import { createColumns } from './usable-columns.ts';

export interface CrmOptions extends CrmSettings {
  environment: string;
  resources?: Resources;
  secrets: SecretsManager;
  cache: SharedCache;
  spareLocks: Locks;
  ownBudgetStore?: BudgetStore;
  crmShareOf?: (consumerId: string) => number | null | undefined;
  stopping?: AbortSignal;
  log: Log;
  metrics: Metrics;
}

export type Crm = ReturnType<typeof createCrm>;

export function createCrm(options: CrmOptions) {
  const { environment, cache, log, secrets, privateKeySecret } = options;
  const connectionHash = hashConnection(options);
  const http = createHttp(options.timeoutMs);
  const { signer, tokens } = createTokens(options, http, connectionHash);
  const budget = openBudget(options, () => client.usage);
  const signals = createSignals();
  const client = new CrmClient({
    ...options,
    budget,
    http,
    tokens,
    onOutcome: (failure) => health.noteOutcome(failure),
    digitsOf: () => schema.numberColumns,
    onMetered: (...call) => void signals.metered.notify(...call),
  });
  const connection = { cache, environment, connectionHash };
  const forwarded = budget && cache.kind === 'redis' ? new ForwardedBatches(connection) : undefined;
  const scheduler = new Scheduler({ ...options, client, forwarded });
  const [columnsOf, resources] = [createColumns(), options.resources ?? resourcesOf()];
  const schema = new OrgSchema({ resources, client, columnsOf, log, userId: userIdBy(client) });
  const checked = { ...connection, client, tokens, budget, dataProbe: dataProbeFor(resources, client) };
  const health = new CrmHealth({ ...checked, lacks: () => schema.faults });
  let unwatch: (() => void) | undefined;
  return {
    records: createSalesforceRecords({
      ...options,
      client,
      scheduler,
      columnsOf,
      onWrite: () => void signals.changed.notify(),
      onMissing: (...found) => signals.missing.notify(...found),
    }),
    changes: createChangeSource({ ...options, client, columnsOf }),
    health,
    tokens,
    schema,
    connectionHash,
    ...signals,
    get usage() {
      return client.usage;
    },
    budgetExhaustedAt: () => exhaustedAt(budget),
    async start() {
      unwatch = secrets.watch(folderOf(privateKeySecret), () => void tokens.noticeKeyChange());
      await signer
        .sign()
        .catch((err: unknown) => log.error({ err }, "can't use the private key for Salesforce"));
      await budget?.start();
    },
    async stop() {
      unwatch?.();
      await forwarded?.stop();
      await budget?.stop();
      await tokens.stop();
      await http.close();
      await signals.stopped.notify();
    },
  };
}

function createTokens(options: CrmOptions, http: Http, connectionHash: string) {
  const { cache, environment, loginUrl, timeoutMs, metrics } = options;
  const now = wallMs;
  const onKey: OnKey = (found) => metrics.crmCertificateExpiresAt.set((found?.endsAt ?? 0) / 1000);
  const signer = new AssertionSigner({ ...options, onKey, now });
  const endpoint = createTokenEndpoint({ http, loginUrl, timeoutMs });
  const backoff = new Backoff({ cache, key: `crm_token_backoff:${environment}`, connectionHash, now });
  return {
    signer,
    tokens: new TokenProvider({ ...options, connectionHash, signer, endpoint, backoff, now }),
  };
}

function dataProbeFor({ quote }: Resources, { dataPath }: CrmClient): string {
  return queryPath(dataPath, `SELECT Id FROM ${quote.crmObject} LIMIT 1`);
}

function createSignals() {
  return {
    changed: new Listeners<[]>(),
    missing: new Listeners<Parameters<OnMissing>>(),
    metered: new Listeners<Parameters<OnMetered>>(),
    stopped: new Listeners<[]>(),
  };
}

async function exhaustedAt(budget: CallBudget | undefined): Promise<Date | null> {
  const ms = (await budget?.exhaustedInMs()) ?? Number.POSITIVE_INFINITY;
  return Number.isFinite(ms) ? new Date(wallMs() + ms) : null;
}

function openBudget(options: CrmOptions, orgUse: () => CrmClient['usage']): CallBudget | undefined {
  const { dailyCallBudget: dailyCalls, cache, environment } = options;
  if (dailyCalls === undefined) return undefined;
  const shared = createCacheBudgetStore(cache, environment);
  const limits = limitsOf(dailyCalls, options.maxWaitMs);
  return new CallBudget({
    ...options,
    dailyCalls,
    store: options.ownBudgetStore ?? shared,
    limits,
    queue: new CallQueue(limits, (consumer) => (options.crmShareOf?.(consumer) ?? 0) / 100),
    orgUse,
  });
}

function folderOf(secretName: string): string {
  return secretName.slice(0, Math.max(0, secretName.lastIndexOf('/')));
}
