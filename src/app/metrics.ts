import { features } from '../features.ts';
import { createMetrics, type MetricRows, type Metrics } from '../platform/observability/metrics.ts';

export function createAllMetrics(): Metrics {
  return createMetrics(Object.assign({}, ...features.map(({ metrics }) => metrics)) as MetricRows);
}
