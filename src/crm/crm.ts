import { Listeners } from '../platform/base/listeners.ts';
import type { Locks } from '../platform/base/lock.ts';
import type { SharedCache } from '../platform/cache/shared-cache.ts';
import { createHttp } from '../platform/http/http.ts';
import type { Log } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import type { SecretsManager } from '../platform/secrets/secrets-manager.ts';
import type { CrmSettings } from '../platform/settings/table.ts';
import type { ChangeSource } from '../records/changes.ts';
import type { Records } from '../records/records.ts';
import { Company } from './batching/company.ts';
import { type BudgetStore, createCacheBudgetStore } from './budget/budget-store.ts';
import { CallBudget } from './budget/call-budget.ts';
import { type CrmHealth, CrmHealthMonitor } from './crm-health.ts';
import { createColumns } from './optional-columns.ts';
import { createChangeSource } from './read-changes.ts';
import { paced } from './rest/failure.ts';
import { type CrmClient, createCrmClient } from './rest/rest-client.ts';
import { createSalesforceRecords, type OnMissing } from './salesforce-records.ts';
import { hashConnection } from './token/access-token.ts';
import { createBackoff } from './token/backoff.ts';
import { createAssertionSigner } from './token/jwt.ts';
import { createTokenEndpoint } from './token/token-endpoint.ts';
import { createTokenProvider, type TokenProvider } from './token/token-provider.ts';

export interface CrmOptions extends CrmSettings {
  environment: string;
  secrets: SecretsManager;
  cache: SharedCache;
  /** Used for the token's lock while the cache is unavailable. */
  spareLocks: Locks;
  /** Where the budget of calls is kept, if there is one and the cache is not shared. */
  ownBudgetStore?: BudgetStore;
  /** Aborted when the service stops: then background work waits for no call of the budget any more. */
  stopping?: AbortSignal;
  log: Log;
  metrics: Metrics;
}

export interface Crm {
  records: Records;
  changes: ChangeSource;
  health: CrmHealth;
  tokens: TokenProvider;
  /** Use of the daily quota of calls, as the CRM last told. */
  readonly usage: CrmClient['usage'];
  /** Identifies the org and the user without naming them. */
  connectionHash: string;
  /** Notified after each write, whatever came of it, and by others who learn that something has changed in the CRM. */
  changed: Listeners<[]>;
  /** Notified of External IDs that a request asked for and the CRM has no record with. */
  missing: Listeners<Parameters<OnMissing>>;
  /** Reads the private key, so that a missing one is logged at once, and watches it. Never throws. */
  start(): Promise<void>;
  /** Waits for calls in flight, and closes the connections. The token stays valid for other replicas. */
  stop(): Promise<void>;
}

/** The connection to the Salesforce org: token, client, records and health, wired. Nothing is sent before it is used. */
export function createCrm(options: CrmOptions): Crm {
  const { environment, cache, log, metrics, secrets, privateKeySecret, timeoutMs } = options;
  const connectionHash = hashConnection(options);
  const now = Date.now;
  const http = createHttp(timeoutMs);
  const signer = createAssertionSigner({ ...options, now });
  const endpoint = createTokenEndpoint({ http, loginUrl: options.loginUrl, timeoutMs });
  const backoff = createBackoff({ cache, key: `crm_token_backoff:${environment}`, connectionHash, now });
  const tokens = createTokenProvider({ ...options, connectionHash, signer, endpoint, backoff, now });
  const budget = openBudget(options);
  const client = createCrmClient({
    ...options,
    budget,
    http,
    tokens,
    onOutcome: (connected) => health.noteOutcome(connected),
  });
  const company =
    budget && cache.kind === 'redis' ? new Company({ cache, environment, connectionHash }) : undefined;
  const columns = createColumns(log);
  const health = new CrmHealthMonitor({
    ...{ environment, connectionHash, cache, client, tokens, budget },
    lacks: () => columns.lacks(),
  });
  let unwatch: (() => void) | undefined;
  const changed = new Listeners<[]>();
  const missing = new Listeners<Parameters<OnMissing>>();
  return {
    records: createSalesforceRecords({
      ...{ client, timeoutMs, log, metrics, company, columnsOf: columns.of },
      onWrite: () => void changed.notify(),
      onMissing: (...found) => missing.notify(...found),
    }),
    changes: createChangeSource({ ...options, client, columnsOf: columns.of }),
    health,
    tokens,
    connectionHash,
    changed,
    missing,
    get usage() {
      return client.usage;
    },
    async start() {
      unwatch = secrets.watch(folderOf(privateKeySecret), () => void tokens.noticeKeyChange());
      await signer
        .sign()
        .catch((err: unknown) => log.error({ err }, 'The private key for the CRM cannot be used'));
      await budget?.start();
    },
    async stop() {
      unwatch?.();
      await company?.stop();
      await budget?.stop();
      await tokens.close();
      await http.close();
    },
  };
}

function openBudget(options: CrmOptions): CallBudget | undefined {
  const { dailyCallBudget: dailyCalls, cache, environment } = options;
  if (dailyCalls === undefined) return undefined;
  const shared = createCacheBudgetStore(cache, budgetName(environment));
  return new CallBudget({ ...options, dailyCalls, store: options.ownBudgetStore ?? shared, refusal: paced });
}

/** Under which the budget of an environment is kept. */
export function budgetName(environment: string): string {
  const key = `crm_budget:${environment}`;
  return key;
}

/** `crm/dev` of `crm/dev/private-key`. */
function folderOf(secretName: string): string {
  return secretName.slice(0, Math.max(0, secretName.lastIndexOf('/')));
}
