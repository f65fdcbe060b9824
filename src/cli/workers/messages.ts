import type { MetricsSnapshot } from '../../observability/worker-metrics.ts';

/** What the parent says to a worker. */
export type ToWorker = { type: 'stop' } | { type: 'metrics' };

/** What a worker says to its parent. */
export type FromWorker = { type: 'ready'; url: string } | { type: 'metrics'; snapshot: MetricsSnapshot };
