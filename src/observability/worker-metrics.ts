import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';
import { createGroupMetrics } from './metrics.ts';

/** All metrics of one worker at one moment, as they travel between processes. */
export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/**
 * The metrics of several processes as those of one. Each metric says itself how it is put together (`aggregator`):
 * the sum, unless that would mean nothing.
 */
export class WorkerMetrics {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly group = createGroupMetrics();
  readonly #latest = new Map<number, MetricsSnapshot>();
  /** What workers that have ended had counted: without it the sums would fall, which reads as a restart of all. */
  #counted: MetricsSnapshot = [];

  take(pid: number, snapshot: MetricsSnapshot): void {
    this.#latest.set(pid, snapshot);
  }

  /** Keeps what a worker that has ended had counted when it was last asked. */
  async keep(pid: number): Promise<void> {
    const snapshot = this.#latest.get(pid) ?? [];
    this.#latest.delete(pid);
    // Gauges tell of now, and that worker has none.
    const counted = snapshot.filter(({ type }) => ['counter', 'histogram'].includes(String(type)));
    this.#counted = await AggregatorRegistry.aggregate([this.#counted, counted]).getMetricsAsJSON();
  }

  async metrics(): Promise<string> {
    const workers = AggregatorRegistry.aggregate([...this.#latest.values(), this.#counted]);
    return `${await workers.metrics()}\n${await this.group.registry.metrics()}`;
  }
}
