import { Counter, Gauge, type Registry } from 'prom-client';

export function readCopyMetrics(registers: Registry[]) {
  return {
    copyAge: new Gauge({
      name: 'handoff_copy_age_seconds',
      help: 'Age of the copy of Salesforce: time since the last complete poll began. NaN while the copy is filled.',
      aggregator: 'max',
      registers,
    }),
    copyRecords: new Gauge({
      name: 'handoff_copy_records',
      help: 'Records in the copy at the last count; an estimate above 100,000.',
      aggregator: 'max',
      registers,
    }),
    copyReads: new Counter({
      name: 'handoff_copy_reads_total',
      help: 'Reads that the copy could answer, by where the answer came from: copy or crm.',
      labelNames: ['source'] as const,
      registers,
    }),
  };
}

export type ReadCopyMetrics = ReturnType<typeof readCopyMetrics>;
