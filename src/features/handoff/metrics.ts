import { Gauge, type Registry } from 'prom-client';
import { startingAtZero } from '../../platform/observability/metrics.ts';

export function handoffMetrics(registers: Registry[]) {
  return {
    acceptedHandoffs: startingAtZero(
      { result: 'failed' },
      {
        name: 'handoff_accepted_total',
        help: 'Hand-offs that were answered 202 (accepted or awaiting_approval), and what became of them: created, failed, cancelled or rejected.',
        labelNames: ['result'] as const,
        registers,
      },
    ),
    acceptedWaiting: new Gauge({
      name: 'handoff_accepted_waiting',
      help: 'Accepted hand-offs that wait to be delivered to the CRM, over all replicas.',
      aggregator: 'max',
      registers,
    }),
    acceptedOldest: new Gauge({
      name: 'handoff_accepted_oldest_seconds',
      help: 'How long the first accepted hand-off that is not delivered has waited.',
      aggregator: 'max',
      registers,
    }),
  };
}

export type HandoffMetrics = ReturnType<typeof handoffMetrics>;
