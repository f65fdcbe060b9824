import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const crmWebhookMetrics = {
  webhooks: {
    type: 'counter',
    name: 'handoff_webhooks_total',
    help: 'Webhooks received from Salesforce, by result.',
    labels: ['result'],
    watched: { result: 'dead' },
  },
} as const satisfies MetricRows;

export type CrmWebhookMetrics = MetricsOf<typeof crmWebhookMetrics>;
