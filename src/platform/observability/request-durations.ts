import type { Metric, Registry } from 'prom-client';

/** Seconds. */
const bounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const name = 'http_server_request_duration_seconds';

interface Labels {
  http_request_method: string;
  http_route: string;
  http_response_status_code: number;
}

interface Series {
  labels: Labels;
  /** Requests up to each bound and over the one before; last those over all bounds. */
  counts: number[];
  sum: number;
}

interface Value {
  metricName: string;
  labels: Partial<Labels> & { le?: number | string };
  value: number;
}

/**
 * The histogram of all requests. Its values with their labels are made when it is read: the library's own histogram
 * checks and joins the labels for each request.
 */
export class RequestDurations {
  readonly name = name;
  readonly help = 'Duration of requests by method, route pattern and status.';
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  readonly labelNames = ['http_request_method', 'http_route', 'http_response_status_code'] as const;
  readonly #series = new Map<string, Series>();

  constructor(registers: Registry[]) {
    // The library asks a metric for no more than this class has; its type names classes.
    for (const registry of registers) registry.registerMetric(this as unknown as Metric);
  }

  observe(labels: Labels, seconds: number): void {
    const key = `${labels.http_request_method} ${labels.http_route} ${labels.http_response_status_code}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      series = { labels, counts: Array<number>(bounds.length + 1).fill(0), sum: 0 };
      this.#series.set(key, series);
    }
    const bucket = bounds.findIndex((bound) => seconds <= bound);
    const at = bucket === -1 ? bounds.length : bucket;
    series.counts[at] = (series.counts[at] ?? 0) + 1;
    series.sum += seconds;
  }

  async get() {
    const { help, type, aggregator } = this;
    return { name, help, type, aggregator, values: [...this.#series.values()].flatMap(valuesOf) };
  }
}

function valuesOf({ labels, counts, sum }: Series): Value[] {
  let count = 0;
  const buckets = counts.map((some, index): Value => {
    count += some;
    return {
      metricName: `${name}_bucket`,
      labels: { le: bounds[index] ?? '+Inf', ...labels },
      value: count,
    };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
