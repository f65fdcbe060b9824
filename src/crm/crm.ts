import type { Locks } from '../base/lock.ts';
import type { SharedCache } from '../cache/shared-cache.ts';
import { createHttp } from '../http/http.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Records } from '../resources/records.ts';
import type { Resource } from '../resources/resource.ts';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import type { CrmSettings } from '../settings/table.ts';
import { type CrmHealth, CrmHealthMonitor } from './crm-health.ts';
import { lackAdvice, OptionalColumns } from './optional-columns.ts';
import { type CrmClient, createCrmClient } from './rest/rest-client.ts';
import { createSalesforceRecords } from './salesforce-records.ts';
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
  log: Log;
  metrics: Metrics;
}

export interface Crm {
  records: Records;
  health: CrmHealth;
  tokens: TokenProvider;
  /** Use of the daily quota of calls, as the CRM last told. */
  readonly usage: CrmClient['usage'];
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
  const client = createCrmClient({
    ...options,
    http,
    tokens,
    onOutcome: (connected) => health.noteOutcome(connected),
  });
  const columns = createColumns(log);
  const health = new CrmHealthMonitor({
    ...{ environment, connectionHash, cache, client, tokens },
    lacks: () => columns.lacks(),
  });
  let unwatch: (() => void) | undefined;
  return {
    records: createSalesforceRecords({ client, timeoutMs, metrics, columnsOf: columns.of }),
    health,
    tokens,
    get usage() {
      return client.usage;
    },
    async start() {
      unwatch = secrets.watch(folderOf(privateKeySecret), () => void tokens.noticeKeyChange());
      await signer
        .sign()
        .catch((err: unknown) => log.error({ err }, 'The private key for the CRM cannot be used'));
    },
    async stop() {
      unwatch?.();
      await tokens.close();
      await http.close();
    },
  };
}

/** What is known of the columns of all resources. */
function createColumns(log: Log) {
  const all = new Map<string, OptionalColumns>();
  return {
    of(resource: Resource): OptionalColumns {
      const known = all.get(resource.name);
      const columns = known ?? new OptionalColumns({ resource, log, now: () => performance.now() });
      all.set(resource.name, columns);
      return columns;
    },
    /** What the org lacks, for people; undefined where nothing is known to lack. */
    lacks(): string | undefined {
      const lacks = [...all.values()].flatMap(({ lack }) => lack ?? []);
      return lacks.length === 0 ? undefined : `${lacks.join('; ')}. ${lackAdvice}`;
    },
  };
}

/** `crm/dev` of `crm/dev/private-key`. */
function folderOf(secretName: string): string {
  return secretName.slice(0, Math.max(0, secretName.lastIndexOf('/')));
}
