import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const readCopyMetrics = {
  copyAge: {
    type: 'gauge',
    name: 'handoff_copy_age_seconds',
    help: 'Age of the copy of Salesforce: time since the last complete poll began. NaN while the copy is filled.',
    aggregator: 'max',
  },
  copyRecords: {
    type: 'gauge',
    name: 'handoff_copy_records',
    help: 'Records in the copy at the last count; an estimate above 100,000.',
    aggregator: 'max',
  },
  copyReads: {
    type: 'counter',
    name: 'handoff_copy_reads_total',
    help: 'Reads that the copy could answer, by where the answer came from: copy or crm.',
    labels: ['source'],
  },
} as const satisfies MetricRows;

export type ReadCopyMetrics = MetricsOf<typeof readCopyMetrics>;
