import { Gauge, type Registry } from 'prom-client';
import { startingAtZero } from '../../platform/observability/metrics.ts';

export function partnerWebhookMetrics(registers: Registry[]) {
  return {
    deliveries: startingAtZero(
      { result: 'given_up' },
      {
        name: 'handoff_deliveries_total',
        help: 'Attempts to deliver events to webhook endpoints by result; given_up: the last one of a delivery failed.',
        labelNames: ['result'] as const,
        registers,
      },
    ),
    webhookEndpointsDisabled: startingAtZero(
      { reason: 'failing' },
      {
        name: 'handoff_webhook_endpoints_disabled_total',
        help: 'Webhook endpoints that the service disabled, by reason: gone (410) or failing.',
        labelNames: ['reason'] as const,
        registers,
      },
    ),
    deliveriesPendingAge: new Gauge({
      name: 'handoff_deliveries_oldest_pending_seconds',
      help: 'Age of the oldest delivery that is still pending; 0 where there is none.',
      aggregator: 'max',
      registers,
    }),
    deliveriesOverdue: new Gauge({
      name: 'handoff_deliveries_overdue_seconds',
      help: 'How long the delivery that is most overdue should have been sent; 0 where there is none.',
      aggregator: 'max',
      registers,
    }),
  };
}

export type PartnerWebhookMetrics = ReturnType<typeof partnerWebhookMetrics>;
