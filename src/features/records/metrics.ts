import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const recordMetrics = {
  memberCacheHits: {
    type: 'counter',
    name: 'handoff_member_cache_hits_total',
    help: 'Reads of one member answered from the shared cache.',
  },
  memberCacheMisses: {
    type: 'counter',
    name: 'handoff_member_cache_misses_total',
    help: 'Reads of one member that missed the shared cache.',
  },
} as const satisfies MetricRows;

export type RecordMetrics = MetricsOf<typeof recordMetrics>;
