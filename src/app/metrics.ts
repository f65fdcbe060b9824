import { features } from '../features.ts';
import { createMetrics, type Metrics } from '../platform/observability/metrics.ts';

export function createAllMetrics(): Metrics {
  return createMetrics((registers) => {
    const groups: object[] = features.map(({ metrics }) => metrics?.(registers) ?? {});
    return Object.assign({}, ...groups) as object;
  });
}
