import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const handoffMetrics = {
  acceptedHandoffs: {
    type: 'counter',
    name: 'handoff_accepted_total',
    help: 'Hand-offs answered 202 (accepted or awaiting_approval), and their outcome: created, failed, cancelled or rejected.',
    labels: ['result'],
    watched: { result: 'failed' },
  },
  acceptedWaiting: {
    type: 'gauge',
    name: 'handoff_accepted_waiting',
    help: 'Accepted hand-offs waiting for delivery to Salesforce, on all replicas.',
    aggregator: 'max',
  },
  acceptedOldest: {
    type: 'gauge',
    name: 'handoff_accepted_oldest_seconds',
    help: 'How long the oldest undelivered hand-off has waited.',
    aggregator: 'max',
  },
} as const satisfies MetricRows;

export type HandoffMetrics = MetricsOf<typeof handoffMetrics>;
