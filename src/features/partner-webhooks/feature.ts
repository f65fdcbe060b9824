import { historySources } from '../../api/history.ts';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { version } from '../../platform/base/version.ts';
import { addEvents } from '../events/event-log.ts';
import type { EventsSettings } from '../events/settings.ts';
import type { EndpointAdministration } from './administration.ts';
import { registerDeliveryCommands } from './cli.ts';
import { createDeliveryHistory } from './delivery-history.ts';
import { documentedWebhooks } from './documented-webhooks.ts';
import { type PartnerWebhookMetrics, partnerWebhookMetrics } from './metrics.ts';
import { webhookEndpointRoutes } from './routes/endpoints.ts';
import { type PartnerWebhooksSettings, partnerWebhooksPart } from './settings.ts';
import { createWebhookEndpoints } from './webhook-endpoints.ts';

export const partnerWebhooks = defineFeature({
  name: 'partner-webhooks',
  settings: partnerWebhooksPart,
  metrics: partnerWebhookMetrics,
  tags: { 'Webhook endpoints': 'Where events are sent to, signed, and what became of each delivery.' },
  start,
  routes: webhookEndpointRoutes,
  webhooks: documentedWebhooks,
  commands: registerDeliveryCommands,
});

/** Nothing is sent where no changes are read. */
function start(
  core: Core<PartnerWebhooksSettings & EventsSettings, PartnerWebhookMetrics>,
): Started<EndpointAdministration> {
  const { settings, opened, consumers, offers, database } = core;
  const { pollSeconds, privateNetworks, retentionDays } = settings.changes;
  const endpoints = createWebhookEndpoints({
    ...core,
    owners: {
      catchUp: () => consumers.directory.catchUp(),
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
  offers.add(historySources, createDeliveryHistory(database));
  opened.defer(() => endpoints.stop());
  if (pollSeconds > 0) {
    tellOfAllowances(core);
    endpoints.start();
  }
  return {
    routes: pollSeconds > 0 ? endpoints.administration : null,
    jobs: [
      {
        name: 'clear-deliveries',
        cron: '7 * * * *',
        steps: { deliveries: endpoints.deleteOld, orphans: endpoints.deleteOrphans },
      },
    ],
  };
}

function tellOfAllowances({ allowances, database }: Pick<Core, 'allowances' | 'database'>): void {
  allowances.onNotice((notice) =>
    database.sql.transaction().execute(async (transaction) => {
      if (!(await allowances.claimNotice(transaction, notice))) return;
      const { consumerId: id, state } = notice;
      const event = {
        type: 'consumer.allowance_used',
        resource: { type: 'consumer', id },
        occurredAt: new Date(wallMs()).toISOString(),
        data: JSON.stringify({ id, allowance: state }),
        permission: 'webhooks',
        privateTo: id,
      } as const;
      await addEvents(transaction, [event]);
    }),
  );
}
