import { Counter, Gauge, type Registry } from 'prom-client';
import { startingAtZero } from '../../platform/observability/metrics.ts';

export function eventMetrics(registers: Registry[]) {
  return {
    changesReadAt: new Gauge({
      name: 'handoff_changes_read_timestamp_seconds',
      help: 'When the last poll that read all changes in Salesforce began.',
      aggregator: 'max',
      registers,
    }),
    changesMissedDeletions: new Gauge({
      name: 'handoff_changes_missed_deletions',
      help: '1 for 30 days after the gateway missed changes for longer than Salesforce remembers deletions; else 0.',
      aggregator: 'max',
      registers,
    }),
    changePolls: startingAtZero(
      { result: 'failed' },
      {
        name: 'handoff_change_polls_total',
        help: 'Polls for changes in Salesforce, by result.',
        labelNames: ['result'] as const,
        registers,
      },
    ),
    changeEvents: new Counter({
      name: 'handoff_change_events_total',
      help: 'Events from changes in Salesforce, by type.',
      labelNames: ['type'] as const,
      registers,
    }),
  };
}

export type EventMetrics = ReturnType<typeof eventMetrics>;
