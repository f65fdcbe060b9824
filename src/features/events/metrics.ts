import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const eventMetrics = {
  changesReadAt: {
    type: 'gauge',
    name: 'handoff_changes_read_timestamp_seconds',
    help: 'When the last poll that read all changes in Salesforce began.',
    aggregator: 'max',
  },
  changesMissedDeletions: {
    type: 'gauge',
    name: 'handoff_changes_missed_deletions',
    help: '1 for 30 days after the gateway missed changes for longer than Salesforce remembers deletions; else 0.',
    aggregator: 'max',
  },
  changePolls: {
    type: 'counter',
    name: 'handoff_change_polls_total',
    help: 'Polls for changes in Salesforce, by result.',
    labels: ['result'],
    watched: { result: 'failed' },
  },
  changeEvents: {
    type: 'counter',
    name: 'handoff_change_events_total',
    help: 'Events from changes in Salesforce, by type.',
    labels: ['type'],
  },
} as const satisfies MetricRows;

export type EventMetrics = MetricsOf<typeof eventMetrics>;
