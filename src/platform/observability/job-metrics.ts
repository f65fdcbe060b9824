import { Counter, Gauge, type Registry } from 'prom-client';

export function jobMetrics(registers: Registry[]) {
  return {
    jobQueueDepth: new Gauge({
      name: 'handoff_job_queue_depth',
      help: 'Jobs by queue and state, over all replicas, as pg-boss last counted them.',
      labelNames: ['queue', 'state'] as const,
      aggregator: 'max',
      registers,
    }),
    jobFailures: new Counter({
      name: 'handoff_job_failures_total',
      help: 'Steps of jobs that failed, repeats of the job included.',
      labelNames: ['queue', 'step'] as const,
      registers,
    }),
  };
}
