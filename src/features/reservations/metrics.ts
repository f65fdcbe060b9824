import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const reservationMetrics = {
  partnerCallDuration: {
    type: 'histogram',
    name: 'handoff_partner_call_duration_seconds',
    help: 'Duration of calls to partners by partner, operation and outcome.',
    labels: ['partner', 'operation', 'outcome'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
  },
  reservationOutcomes: {
    type: 'counter',
    name: 'handoff_reservation_outcomes_total',
    help: 'Reservations by outcome; needs_attention means that a person has to check.',
    labels: ['outcome'],
    watched: { outcome: 'needs_attention' },
  },
} as const satisfies MetricRows;

export type ReservationMetrics = MetricsOf<typeof reservationMetrics>;
