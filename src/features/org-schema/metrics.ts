import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';

export const orgSchemaMetrics = {
  schemaFaults: {
    type: 'gauge',
    name: 'handoff_crm_schema_faults',
    help: "Objects and fields in Salesforce that don't fit the gateway; crm.lacks in the health report names them.",
    aggregator: 'max',
  },
} as const satisfies MetricRows;

export type OrgSchemaMetrics = MetricsOf<typeof orgSchemaMetrics>;
