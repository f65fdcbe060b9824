import type { Registry } from 'prom-client';
import { startingAtZero } from '../../platform/observability/metrics.ts';

export function crmWebhookMetrics(registers: Registry[]) {
  return {
    webhooks: startingAtZero(
      { result: 'dead' },
      {
        name: 'handoff_webhooks_total',
        help: 'Webhooks received from Salesforce, by result.',
        labelNames: ['result'] as const,
        registers,
      },
    ),
  };
}

export type CrmWebhookMetrics = ReturnType<typeof crmWebhookMetrics>;
