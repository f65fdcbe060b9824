import { type AddressRules, createCheckedAddresses } from '../../platform/http/checked-addresses.ts';
import { createOutboundHttp } from '../../platform/http/outbound.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { Database } from '../../platform/store/database.ts';
import { createEndpointAdministration } from './administration.ts';
import { type Deliverer, startDeliverer } from './deliverer.ts';
import { DeliveriesTable } from './deliveries-table.ts';
import { DeliveryQueue } from './delivery-queue.ts';
import { createConsumerLoader, type Owners } from './endpoint-consumers.ts';
import { EndpointSecrets } from './endpoint-secrets.ts';
import { EndpointsTable } from './endpoints-table.ts';
import type { PartnerWebhookMetrics } from './metrics.ts';

interface WebhookEndpointsOptions {
  database: Database;
  secrets: SecretsManager;
  owners: Owners;
  addressRules: AddressRules;
  retentionDays: number;
  userAgent: string;
  log: Log;
  metrics: PartnerWebhookMetrics;
  /** How long one attempt may take, in milliseconds. */
  timeoutMs?: number;
}

const usualTimeoutMs = 15_000;

export function createWebhookEndpoints(options: WebhookEndpointsOptions) {
  const { database, owners, log, timeoutMs = usualTimeoutMs } = options;
  const endpoints = new EndpointsTable(database);
  const deliveries = new DeliveriesTable(database);
  const secrets = new EndpointSecrets(options.secrets);
  const addresses = createCheckedAddresses(options.addressRules);
  const http = createOutboundHttp(addresses, timeoutMs);
  let deliverer: Deliverer | undefined;

  async function removeAllOf(consumerId: string): Promise<void> {
    for (const id of await endpoints.idsOf(consumerId)) {
      await secrets.remove(id);
      await endpoints.remove(consumerId, id);
      log.info({ endpoint_id: id, consumer_id: consumerId }, 'a webhook endpoint went with its consumer');
    }
  }

  const loadConsumers = createConsumerLoader({
    owners,
    removeAllOf,
    failed: (err, consumer_id) =>
      log.warn({ err, consumer_id }, "couldn't read a consumer of webhook endpoints; its deliveries wait"),
  });
  return {
    administration: createEndpointAdministration({
      endpoints,
      deliveries,
      secrets,
      addresses,
      wake: () => deliverer?.wake(),
    }),
    /** Deletes deliveries that are older than their retention. Throws what the database does. */
    deleteOld: (signal?: AbortSignal): Promise<void> => deliveries.deleteOld(options.retentionDays, signal),
    /** Deletes deliveries of endpoints that no longer exist. Throws what the database does. */
    deleteOrphans: (signal?: AbortSignal): Promise<void> => deliveries.deleteOrphans(signal),
    start: (): void => {
      const disable = endpoints.disable.bind(endpoints);
      const queue = new DeliveryQueue(database);
      deliverer = startDeliverer({ ...options, queue, secrets, http, loadConsumers, disable });
    },
    stop: async (): Promise<void> => {
      await deliverer?.stop();
      await http.close();
    },
  };
}

export type WebhookEndpoints = ReturnType<typeof createWebhookEndpoints>;
