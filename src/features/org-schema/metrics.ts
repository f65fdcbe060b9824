import { Gauge, type Registry } from 'prom-client';

export function orgSchemaMetrics(registers: Registry[]) {
  return {
    schemaFaults: new Gauge({
      name: 'handoff_crm_schema_faults',
      help: "Objects and fields in Salesforce that don't fit the gateway; crm.lacks in the health report names them.",
      aggregator: 'max',
      registers,
    }),
  };
}

export type OrgSchemaMetrics = ReturnType<typeof orgSchemaMetrics>;
