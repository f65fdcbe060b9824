import { type Core, defineFeature, type Erasure, type ErasureStores, type Started } from '../../feature.ts';
import { memberCache } from '../../records/offers.ts';
import { registerWebhookCommands } from './cli.ts';
import { secretsCheck } from './doctor.ts';
import { type CrmWebhookMetrics, crmWebhookMetrics } from './metrics.ts';
import { memberWebhookRoute } from './routes/member-webhook.ts';
import { makeFirstWebhookSecret } from './secrets.ts';
import { type CrmWebhooksSettings, crmWebhooksPart } from './settings.ts';
import { createWebhooks, type Webhooks } from './webhooks.ts';
import { WebhooksTable } from './webhooks-table.ts';

export const crmWebhooks = defineFeature({
  name: 'crm-webhooks',
  settings: crmWebhooksPart,
  metrics: crmWebhookMetrics,
  tags: { Webhooks: 'Signed reports of changes in the CRM.' },
  start,
  routes: (webhooks: Webhooks) => [memberWebhookRoute(webhooks)],
  commands: registerWebhookCommands,
  checks: [secretsCheck],
  erasers: [{ part: 'webhooks', erase }],
});

async function start(core: Core<CrmWebhooksSettings, CrmWebhookMetrics>): Promise<Started<Webhooks>> {
  const { settings, secrets, log, crm, offers, opened } = core;
  if (secrets.kind === 'file' && !settings.production) await makeFirstWebhookSecret(secrets, log);
  const webhooks = createWebhooks({
    ...core,
    refreshSeconds: settings.secretsRefreshSeconds,
    retentionDays: settings.webhookRetentionDays,
    apply: async ({ memberId, receivedAt }) => offers.find(memberCache)?.drop(memberId, receivedAt),
    onReceived: () => void crm.changed.notify(),
  });
  opened.defer(() => webhooks.stop());
  await webhooks.start();
  return {
    routes: webhooks,
    jobs: [{ name: 'clear-webhooks', cron: '37 * * * *', steps: { webhooks: webhooks.deleteOld } }],
  };
}

async function erase(memberId: string, { database }: ErasureStores): Promise<Erasure> {
  const count = await new WebhooksTable(database).eraseMember(memberId);
  return { label: 'webhooks', count, fields: { webhooks: count } };
}
