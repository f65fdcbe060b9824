import {
  type Core,
  type DoctorCheck,
  defineFeature,
  type Erasure,
  type ErasureStores,
  type Started,
  secretsOf,
} from '../../feature.ts';
import { days, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { memberCache } from '../../records/offers.ts';
import { registerWebhookCommands } from './cli.ts';
import { type CrmWebhookMetrics, crmWebhookMetrics } from './processor.ts';
import { memberWebhookRoute } from './routes/member-webhook.ts';
import { makeFirstWebhookSecret, parseWebhookSecrets, webhookSecretName } from './secrets.ts';
import { createWebhooks, type Webhooks } from './webhooks.ts';
import { WebhooksTable } from './webhooks-table.ts';

const crmWebhooksSettings = {
  webhookRetentionDays: setting(
    'WEBHOOK_RETENTION_DAYS',
    days,
    30,
    'How long the gateway keeps received webhooks, and recognises repeats.',
  ),
};

type CrmWebhooksSettings = SettingsOf<typeof crmWebhooksSettings>;

const crmWebhooksPart: SettingsPart = { table: crmWebhooksSettings };

/** Several are valid at once while senders change from one to the next. */
const secretsCheck: DoctorCheck = {
  name: 'webhook secrets',
  needs: ['secrets manager'],
  async run(context) {
    const found = await secretsOf(context).read(webhookSecretName);
    const { secrets, faults } = parseWebhookSecrets(found?.value ?? '');
    if (faults.length > 0) {
      throw new Error([`Ignored lines in ${webhookSecretName}:`, ...faults].join('\n'));
    }
    if (secrets.length > 1)
      return `${secrets.length} valid at once; remove the old one when no sender uses it`;
    if (secrets.length === 1) return `one, in ${webhookSecretName}`;
    const hint = `put "whsec_" and 32 random bytes in base64 into ${webhookSecretName}`;
    return `none yet, so every webhook is refused; ${hint}`;
  },
};

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
