import type { Locks } from '../base/lock.ts';
import type { SharedCache } from '../cache/shared-cache.ts';
import { createHttp } from '../http/http.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { ChangeSource } from '../resources/changes.ts';
import type { Records } from '../resources/records.ts';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import type { CrmSettings } from '../settings/table.ts';
import { type CrmHealth, CrmHealthMonitor } from './crm-health.ts';
import { createColumns } from './optional-columns.ts';
import { createChangeSource } from './read-changes.ts';
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
  changes: ChangeSource;
  health: CrmHealth;
  tokens: TokenProvider;
  /** Use of the daily quota of calls, as the CRM last told. */
  readonly usage: CrmClient['usage'];
  /** The listener is told after each write, whatever came of it. */
  onWrite(listener: () => void): void;
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
  let tellOfWrite = () => {};
  return {
    records: createSalesforceRecords({
      ...{ client, timeoutMs, metrics, columnsOf: columns.of },
      onWrite: () => tellOfWrite(),
    }),
    changes: createChangeSource({ client, metrics, columnsOf: columns.of }),
    health,
    tokens,
    get usage() {
      return client.usage;
    },
    onWrite(listener) {
      tellOfWrite = listener;
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

/** `crm/dev` of `crm/dev/private-key`. */
function folderOf(secretName: string): string {
  return secretName.slice(0, Math.max(0, secretName.lastIndexOf('/')));
}
