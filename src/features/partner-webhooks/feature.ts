import { sql } from 'kysely';
import { Type } from 'typebox';
import { entry, type HistorySource, historySources, mostEntries } from '../../api/history.ts';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { allows } from '../../identity/consumers/consumer.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { isNetwork } from '../../platform/base/networks.ts';
import { version } from '../../platform/base/version.ts';
import { setting, text } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { addEvents, eventIdsOf } from '../events/event-log.ts';
import type { EventsSettings } from '../events/settings.ts';
import type { EndpointAdministration } from './administration.ts';
import { registerDeliveryCommands } from './cli.ts';
import { documentedWebhooks } from './documented-webhooks.ts';
import { type PartnerWebhookMetrics, partnerWebhookMetrics } from './metrics.ts';
import { webhookEndpointRoutes } from './routes/endpoints.ts';
import { createWebhookEndpoints } from './webhook-endpoints.ts';

function createDeliveryHistory(database: Database): HistorySource {
  return async ({ type, id }, { consumer }) => {
    if (!allows(consumer, 'webhooks', 'read')) return [];
    const statement = sql<{
      endpoint_id: string;
      status: 'delivered' | 'failed';
      /** RFC 3339. */
      at: string;
    }>`
      select d.endpoint_id, d.status, coalesce(d.attempts -> -1 ->> 'at', to_json(d.created_at) #>> '{}') as at
      from (${eventIdsOf(type, id, mostEntries)}) as e
      cross join (select id from webhook_endpoints where consumer_id = ${consumer.id}) as w
      join deliveries d on d.endpoint_id = w.id and d.event_id = e.id
      where d.status <> 'pending' order by d.number desc limit ${mostEntries}`;
    const { rows } = await orUnavailable(() => statement.execute(database.sql), {
      keeps: 'keeps the deliveries',
    });
    return rows.map(({ endpoint_id: endpoint, status, at }) =>
      entry(new Date(at), status === 'delivered' ? 'delivered' : 'delivery_failed', {
        endpoint,
        isUnproven: true,
      }),
    );
  };
}

const partnerWebhooksSettings = {
  'changes.privateNetworks': setting(
    'CHANGES_PRIVATE_NETWORKS',
    Type.Array(text, { maxItems: 64 }),
    ({ production }) => (production ? [] : ['127.0.0.0/8', '::1/128']),
    'CIDR blocks of private networks that webhook endpoints may be in, or `none`; defaults to loopback outside production, else none.',
    { normalize: (blocks) => blocks.filter((block) => block !== 'none') },
  ),
};

export type PartnerWebhooksSettings = SettingsOf<typeof partnerWebhooksSettings>;

const partnerWebhooksPart: SettingsPart = {
  table: partnerWebhooksSettings,
  // A misspelt network would open what was not meant, or nothing.
  check({ raw, named }) {
    const blocks = (raw['changes.privateNetworks'] ?? []) as string[];
    const isNone = blocks.length === 1 && blocks[0] === 'none';
    return blocks
      .filter((block) => !isNone && !isNetwork(block))
      .map((block) => `${named('changes.privateNetworks')}: ${JSON.stringify(block)} isn't a CIDR block`);
  },
};

export const partnerWebhooks = defineFeature({
  name: 'partner-webhooks',
  settings: partnerWebhooksPart,
  metrics: partnerWebhookMetrics,
  tags: { 'Webhook endpoints': 'Where signed events are sent, and what became of each delivery.' },
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
