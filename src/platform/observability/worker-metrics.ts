import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';
import { type MetricRows, makeMetrics } from './metrics.ts';

export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/**
 * The metrics of several processes as those of one. Each metric defines how it is aggregated (`aggregator`): the sum,
 * unless a sum would mean nothing.
 */
export class WorkerMetrics {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly group = createGroupMetrics();
  readonly #latest = new Map<number, MetricsSnapshot>();
  /** Counts of workers that have ended: without them the sums would fall, which looks like a restart of all workers. */
  #counted: Promise<MetricsSnapshot> = Promise.resolve([]);

  take(pid: number, snapshot: MetricsSnapshot): void {
    this.#latest.set(pid, snapshot);
  }

  keep(pid: number): void {
    const snapshot = this.#latest.get(pid) ?? [];
    this.#latest.delete(pid);
    // A gauge of an ended worker means nothing.
    const counted = snapshot.filter(({ type }) => ['counter', 'histogram'].includes(String(type)));
    // One after the other: two workers may end at once, and the counts of neither may be lost.
    this.#counted = this.#counted.then((before) =>
      AggregatorRegistry.aggregate([before, counted]).getMetricsAsJSON(),
    );
  }

  async metrics(): Promise<string> {
    // Read in one turn: a worker that ends meanwhile counts once.
    const [latest, counted] = [[...this.#latest.values()], this.#counted];
    const workers = AggregatorRegistry.aggregate([...latest, await counted]);
    return `${await workers.metrics()}\n${await this.group.registry.metrics()}`;
  }
}

const groupMetrics = {
  workers: { type: 'gauge', name: 'handoff_workers', help: 'Worker processes that serve requests.' },
  workerEnds: {
    type: 'counter',
    name: 'handoff_worker_ends_total',
    help: 'Worker processes that ended unexpectedly and were replaced.',
  },
} as const satisfies MetricRows;

export function createGroupMetrics() {
  const registry = new Registry();
  return { registry, ...makeMetrics(groupMetrics, [registry]) };
}
