import { Counter, Histogram, type Registry } from 'prom-client';

export function batchMetrics(registers: Registry[]) {
  return {
    crmBatchSize: new Histogram({
      name: 'handoff_crm_batch_size',
      help: 'Requests that were gathered into one call to the CRM, by what they asked for.',
      labelNames: ['operation'] as const,
      buckets: [1, 2, 5, 10, 20, 50, 100, 200],
      registers,
    }),
    crmBatchSplits: new Counter({
      name: 'handoff_crm_batch_splits_total',
      help: 'Batches that were sent to the CRM again in parts, to find the record that made all fail, by object.',
      labelNames: ['object'] as const,
      registers,
    }),
    crmRetries: new Counter({
      name: 'handoff_crm_retries_total',
      help: 'Calls and records that were sent to the CRM again, by the failure before.',
      labelNames: ['reason'] as const,
      registers,
    }),
  };
}
