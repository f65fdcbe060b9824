import { Histogram, type Registry } from 'prom-client';
import { startingAtZero } from '../../platform/observability/metrics.ts';

export function reservationMetrics(registers: Registry[]) {
  return {
    partnerCallDuration: new Histogram({
      name: 'handoff_partner_call_duration_seconds',
      help: 'Duration of calls to partners by partner, operation and outcome.',
      labelNames: ['partner', 'operation', 'outcome'] as const,
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
      registers,
    }),
    reservationOutcomes: startingAtZero(
      { outcome: 'needs_attention' },
      {
        name: 'handoff_reservation_outcomes_total',
        help: 'Reservations by outcome; needs_attention means that a person has to check.',
        labelNames: ['outcome'] as const,
        registers,
      },
    ),
  };
}

export type ReservationMetrics = ReturnType<typeof reservationMetrics>;
