import { Gauge, type Registry } from 'prom-client';
import { startingAtZero } from '../../platform/observability/metrics.ts';

export function partnerWebhookMetrics(registers: Registry[]) {
  return {
    deliveries: startingAtZero(
      { result: 'given_up' },
      {
        name: 'handoff_deliveries_total',
        help: "Attempts to deliver events to webhook endpoints, by result; given_up means that a delivery's last attempt failed.",
        labelNames: ['result'] as const,
        registers,
      },
    ),
    webhookEndpointsDisabled: startingAtZero(
      { reason: 'failing' },
      {
        name: 'handoff_webhook_endpoints_disabled_total',
        help: 'Webhook endpoints that the gateway disabled, by reason: gone (410) or failing.',
        labelNames: ['reason'] as const,
        registers,
      },
    ),
    deliveriesPendingAge: new Gauge({
      name: 'handoff_deliveries_oldest_pending_seconds',
      help: 'Age of the oldest pending delivery; 0 if there is none.',
      aggregator: 'max',
      registers,
    }),
    deliveriesOverdue: new Gauge({
      name: 'handoff_deliveries_overdue_seconds',
      help: 'How late the most overdue delivery is; 0 if there is none.',
      aggregator: 'max',
      registers,
    }),
  };
}

export type PartnerWebhookMetrics = ReturnType<typeof partnerWebhookMetrics>;
