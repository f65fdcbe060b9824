import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const partnerWebhookMetrics = {
  deliveries: {
    type: 'counter',
    name: 'handoff_deliveries_total',
    help: "Attempts to deliver events to webhook endpoints, by result; given_up means that a delivery's last attempt failed.",
    labels: ['result'],
    watched: { result: 'given_up' },
  },
  webhookEndpointsDisabled: {
    type: 'counter',
    name: 'handoff_webhook_endpoints_disabled_total',
    help: 'Webhook endpoints that the gateway disabled, by reason: gone (410) or failing.',
    labels: ['reason'],
    watched: { reason: 'failing' },
  },
  deliveriesPendingAge: {
    type: 'gauge',
    name: 'handoff_deliveries_oldest_pending_seconds',
    help: 'Age of the oldest pending delivery; 0 if there is none.',
    aggregator: 'max',
  },
  deliveriesOverdue: {
    type: 'gauge',
    name: 'handoff_deliveries_overdue_seconds',
    help: 'How late the most overdue delivery is; 0 if there is none.',
    aggregator: 'max',
  },
} as const satisfies MetricRows;

export type PartnerWebhookMetrics = MetricsOf<typeof partnerWebhookMetrics>;
