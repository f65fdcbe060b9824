import type { Consumers } from './consumers/consumers.ts';
import type { Log } from './observability/log.ts';
import type { Metrics } from './observability/metrics.ts';
import type { SecretsManager } from './secrets/secrets-manager.ts';
import type { Settings } from './settings/table.ts';
import type { Database } from './store/database.ts';
import { version } from './version.ts';
import { createWebhookEndpoints, type WebhookEndpoints } from './webhook-endpoints/webhook-endpoints.ts';

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
