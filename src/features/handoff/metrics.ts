import { Gauge, type Registry } from 'prom-client';
import { startingAtZero } from '../../platform/observability/metrics.ts';

export function handoffMetrics(registers: Registry[]) {
  return {
    acceptedHandoffs: startingAtZero(
      { result: 'failed' },
      {
        name: 'handoff_accepted_total',
        help: 'Hand-offs answered 202 (accepted or awaiting_approval), and their outcome: created, failed, cancelled or rejected.',
        labelNames: ['result'] as const,
        registers,
      },
    ),
    acceptedWaiting: new Gauge({
      name: 'handoff_accepted_waiting',
      help: 'Accepted hand-offs waiting for delivery to Salesforce, on all replicas.',
      aggregator: 'max',
      registers,
    }),
    acceptedOldest: new Gauge({
      name: 'handoff_accepted_oldest_seconds',
      help: 'How long the oldest undelivered hand-off has waited.',
      aggregator: 'max',
      registers,
    }),
  };
}

export type HandoffMetrics = ReturnType<typeof handoffMetrics>;
