import { type Consumer, isActive } from '../../identity/consumers/consumer.ts';
import { monotonicMs, wallMs } from '../../platform/base/chance.ts';
import { type AddressRules, createCheckedAddresses } from '../../platform/http/checked-addresses.ts';
import { createOutboundHttp } from '../../platform/http/outbound.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { Database } from '../../platform/store/database.ts';
import { eventVisibilityOf } from '../events/event-visibility.ts';
import { createEndpointAdministration } from './administration.ts';
import { type Deliverer, startDeliverer } from './deliverer.ts';
import { DeliveriesTable } from './deliveries-table.ts';
import { DeliveryQueue, type EndpointConsumers, type EndpointViewer } from './delivery-queue.ts';
import { withinScopesOf } from './endpoint.ts';
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

  const loadConsumers = createConsumerLoader({ owners, removeAllOf, log });
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

interface Owners {
  catchUp(): Promise<void> | undefined;
  /** As it is loaded; undefined where it is not. */
  find(id: string): Consumer | undefined;
  /** Reads one that is not loaded: another process may have just made it. False where it has been revoked. Throws. */
  exists(id: string): Promise<boolean>;
}

/** A consumer that is not loaded is looked for this often, in milliseconds: it may be broken, or the secrets manager unavailable. */
const searchIntervalMs = 10_000;

/**
 * Loads the viewers whose consumers are there, by their permissions now. Endpoints of a consumer that is not known wait while it
 * is looked for; those of one that was revoked go.
 */
function createConsumerLoader({
  owners,
  removeAllOf,
  log,
}: {
  owners: Owners;
  removeAllOf(consumerId: string): Promise<void>;
  log: Log;
}) {
  const searchedAt = new Map<string, number>();
  let searching: Promise<void> | undefined;

  async function search(id: string): Promise<void> {
    const now = monotonicMs();
    if (now - (searchedAt.get(id) ?? Number.NEGATIVE_INFINITY) < searchIntervalMs) return;
    searchedAt.set(id, now);
    try {
      if (!(await owners.exists(id))) await removeAllOf(id);
    } catch (err) {
      log.warn(
        { err, consumer_id: id },
        "couldn't read a consumer of webhook endpoints; its deliveries wait",
      );
    }
  }

  async function searchAll(ids: readonly string[]): Promise<void> {
    for (const id of ids) await search(id);
  }

  return async (viewers: readonly EndpointViewer[]): Promise<EndpointConsumers> => {
    await owners.catchUp();
    const consumerIds = new Set(viewers.map(({ consumer_id }) => consumer_id));
    for (const id of searchedAt.keys()) if (!consumerIds.has(id)) searchedAt.delete(id);
    const unknown = [...consumerIds].filter((id) => !owners.find(id));
    // Not awaited: while the secrets manager hangs, it would hold up deliveries to all others.
    searching ??= searchAll(unknown).finally(() => {
      searching = undefined;
    });
    const found = viewers.flatMap(({ viewer, consumer_id, scopes }) => {
      const consumer = owners.find(consumer_id);
      return consumer === undefined ? [] : [{ viewer, consumer, scopes }];
    });
    // Deliveries of a consumer that is disabled or has expired wait.
    const active = found.filter(({ consumer }) => isActive(consumer, wallMs()));
    return {
      visibility: found.map(({ viewer, consumer, scopes }) => ({
        viewer,
        ...eventVisibilityOf(withinScopesOf({ scopes }, consumer)),
      })),
      active: active.map(({ viewer }) => viewer),
    };
  };
}
