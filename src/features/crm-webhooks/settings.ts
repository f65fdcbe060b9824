import { days, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const crmWebhooksSettings = {
  webhookRetentionDays: setting(
    'WEBHOOK_RETENTION_DAYS',
    days,
    30,
    'How long received webhooks are kept, and repeats recognised.',
  ),
};

export type CrmWebhooksSettings = SettingsOf<typeof crmWebhooksSettings>;

export const crmWebhooksPart: SettingsPart = { table: crmWebhooksSettings };
