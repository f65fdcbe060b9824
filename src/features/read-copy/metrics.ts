import { Counter, Gauge, type Registry } from 'prom-client';

export function readCopyMetrics(registers: Registry[]) {
  return {
    copyAge: new Gauge({
      name: 'handoff_copy_age_seconds',
      help: 'How old the copy of the CRM is: since the last poll began that is complete in it. NaN while it is filled.',
      aggregator: 'max',
      registers,
    }),
    copyRecords: new Gauge({
      name: 'handoff_copy_records',
      help: 'Records in the copy, as the replica that keeps it last counted; an estimate beyond 100,000.',
      aggregator: 'max',
      registers,
    }),
    copyReads: new Counter({
      name: 'handoff_copy_reads_total',
      help: 'Reads that could be answered from the copy, by where the answer came from: copy or crm.',
      labelNames: ['source'] as const,
      registers,
    }),
  };
}

export type ReadCopyMetrics = ReturnType<typeof readCopyMetrics>;
