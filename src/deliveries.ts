import {
  createWebhookEndpoints,
  type WebhookEndpoints,
} from './features/partner-webhooks/webhook-endpoints.ts';
import type { Consumers } from './identity/consumers/consumers.ts';
import { version } from './platform/base/version.ts';
import type { Log } from './platform/observability/log.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { SecretsManager } from './platform/secrets/secrets-manager.ts';
import type { Settings } from './platform/settings/table.ts';
import type { Database } from './platform/store/database.ts';

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  log: Log;
  metrics: Metrics;
  /** What is opened here is closed through it. */
  opened: AsyncDisposableStack;
  secrets: SecretsManager;
  database: Database;
  consumers: Consumers;
}

/** The webhook endpoints, to which events are sent from now on, unless no changes are read. */
export function startDeliveries(parts: Parts): WebhookEndpoints {
  const { settings, opened, consumers } = parts;
  const { pollSeconds, privateNetworks, retentionDays } = settings.changes;
  const endpoints = createWebhookEndpoints({
    ...parts,
    owners: {
      find: (id) => consumers.directory.consumer(id),
      exists: async (id) => {
        await consumers.directory.readAgain(id);
        return (
          consumers.directory.consumer(id) !== undefined || (await consumers.store.find(id)) !== undefined
        );
      },
    },
    addressRules: { privateNetworks, httpToLoopback: !settings.production },
    retentionDays,
    userAgent: `handoff-gateway/${version}`,
  });
  opened.defer(() => endpoints.stop());
  if (pollSeconds > 0) endpoints.start();
  return endpoints;
}
