import { Counter, collectDefaultMetrics, Gauge, Histogram, type Metric, Registry } from 'prom-client';
import { monotonicMs } from '../base/chance.ts';

interface Described {
  name: string;
  help: string;
  labels?: readonly string[];
}

interface CounterRow extends Described {
  type: 'counter';
  /**
   * The series that alerts watch for its first event: it is there from the start, for Prometheus sees no increase in one that
   * begins above 0.
   */
  watched?: Readonly<Record<string, string>>;
}

interface GaugeRow extends Described {
  type: 'gauge' | 'level' | 'clock';
  /** Several workers' gauges become one; their sum, if absent. */
  aggregator?: 'min' | 'max';
}

interface HistogramRow extends Described {
  type: 'histogram';
  buckets: readonly number[];
}

type MetricRow = CounterRow | GaugeRow | HistogramRow;

export type MetricRows = Readonly<Record<string, MetricRow>>;

interface Instruments<L extends string> {
  counter: Counter<L>;
  gauge: Gauge<L>;
  level: LevelGauge;
  clock: ClockGauge;
  histogram: Histogram<L>;
}

type LabelsOf<R> = R extends { labels: readonly (infer L extends string)[] } ? L : string;

/** Has nothing for rows whose keys are not known. */
export type MetricsOf<T extends MetricRows> = {
  [K in keyof T as string extends K ? never : K]: Instruments<LabelsOf<T[K]>>[T[K]['type']];
};

/** A gauge of the seconds since its last `restart`, computed when it is read. */
class ClockGauge extends Gauge {
  #startedAt: number | undefined;

  restart(): void {
    this.#startedAt = monotonicMs();
  }

  override async get() {
    this.set(this.#startedAt === undefined ? 0 : (monotonicMs() - this.#startedAt) / 1000);
    return super.get();
  }
}

/** A gauge for what changes far more often than it is read: `level` is set freely, and exported when it is read. */
class LevelGauge extends Gauge {
  level = 0;

  override async get() {
    this.set(this.level);
    return super.get();
  }
}

const gauges = { gauge: Gauge, level: LevelGauge, clock: ClockGauge };

/** Labels have few values, and no id but that of a consumer. */
const platformMetrics = {
  ready: {
    type: 'gauge',
    name: 'handoff_ready',
    help: '1 while this process accepts requests; 0 while it warms up or stops.',
    aggregator: 'min',
  },
  testRequests: {
    type: 'counter',
    name: 'handoff_test_requests_total',
    help: "Test consumers' requests by status; no other request metric counts them.",
    labels: ['http_response_status_code'],
  },
  httpActiveRequests: { type: 'level', name: 'http_server_active_requests', help: 'Requests in flight.' },
  connectionsEnded: {
    type: 'counter',
    name: 'handoff_connections_ended_total',
    help: "Connections to the API that the gateway refused at the limit, closed while idle to accept another, or closed because the client didn't read its answers.",
    labels: ['reason'],
    watched: { reason: 'limit' },
  },
  rateLimitRefusals: {
    type: 'counter',
    name: 'handoff_rate_limit_refusals_total',
    help: 'Requests that a rate limit refused, by limit.',
    labels: ['limit'],
  },
  authenticationAttempts: {
    type: 'counter',
    name: 'handoff_authentication_attempts_total',
    help: 'Authentication attempts by result.',
    labels: ['result'],
  },
  secretsLoadedAt: {
    type: 'gauge',
    name: 'handoff_secrets_loaded_timestamp_seconds',
    help: 'When the gateway last read all consumers and keys from the secrets manager.',
    aggregator: 'min',
  },
  consumerFailedAttempts: {
    type: 'counter',
    name: 'handoff_consumer_failed_attempts_total',
    help: "Attempts with a consumer's API key that got 401 or 403, by consumer.",
    labels: ['consumer_id'],
  },
  consumerValidUntil: {
    type: 'gauge',
    name: 'handoff_consumer_valid_until_timestamp_seconds',
    help: "When an enabled consumer's credentials expire, for consumers with validUntil.",
    labels: ['consumer_id'],
    aggregator: 'max',
  },
  consumerNewNetworks: {
    type: 'counter',
    name: 'handoff_consumer_new_networks_total',
    help: 'Uses of valid credentials from a network that was new to the consumer (IPv4 /24, IPv6 /48); the log names both.',
  },
  auditAttemptsDropped: {
    type: 'counter',
    name: 'handoff_audit_attempts_dropped_total',
    help: 'Authentication attempts that were logged but not stored because the database was unavailable for too long.',
  },
  tlsHandshakeFailures: {
    type: 'counter',
    name: 'handoff_tls_handshake_failures_total',
    help: 'Connections to the API port that failed the TLS handshake.',
  },
  crmCallDuration: {
    type: 'histogram',
    name: 'handoff_crm_call_duration_seconds',
    help: 'Duration of calls to Salesforce by operation and outcome, without the wait for a slot.',
    labels: ['operation', 'outcome'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
  },
  crmTokenCacheHits: {
    type: 'counter',
    name: 'handoff_crm_token_cache_hits_total',
    help: 'Reads of the Salesforce access token that found one in the shared cache.',
  },
  crmTokenCacheMisses: {
    type: 'counter',
    name: 'handoff_crm_token_cache_misses_total',
    help: 'Reads of the Salesforce access token that found none in the shared cache.',
  },
  crmTokenAcquisitions: {
    type: 'counter',
    name: 'handoff_crm_token_acquisitions_total',
    help: "Requests to Salesforce's token endpoint by outcome.",
    labels: ['outcome'],
    watched: { outcome: 'permanent' },
  },
  crmOwnerFallbacks: {
    type: 'counter',
    name: 'handoff_crm_owner_fallbacks_total',
    help: 'Records that got another owner because Salesforce refused the one that the actor names.',
  },
  crmRejected: {
    type: 'counter',
    name: 'handoff_crm_rejected_total',
    help: 'Writes that Salesforce refused, by object and first error code.',
    labels: ['object', 'code'],
  },
  crmUnreadableFields: {
    type: 'counter',
    name: 'handoff_crm_unreadable_fields_total',
    help: "Fields of Salesforce records that the API showed as null because their value didn't match their type.",
    labels: ['resource', 'field'],
  },
  crmBudgetExhausted: {
    type: 'gauge',
    name: 'handoff_crm_budget_exhausted_seconds',
    help: "Seconds until the call budget runs out at the last hour's rate; +Inf if it lasts or isn't set.",
    aggregator: 'min',
  },
  crmCalls: {
    type: 'counter',
    name: 'handoff_crm_calls_total',
    help: 'Calls to Salesforce that count against its quota, by operation.',
    labels: ['operation'],
  },
  crmApiUsage: {
    type: 'gauge',
    name: 'handoff_crm_api_usage',
    help: 'Calls of its daily quota that the org has used, as Salesforce last reported.',
    aggregator: 'max',
  },
  crmApiLimit: {
    type: 'gauge',
    name: 'handoff_crm_api_limit',
    help: "The org's daily call quota, as Salesforce last reported.",
    aggregator: 'max',
  },
  crmBudget: {
    type: 'gauge',
    name: 'handoff_crm_budget',
    help: 'Calls to Salesforce that the gateway may make in 24 hours; 0 if no budget is set.',
    aggregator: 'max',
  },
  crmBudgetUsed: {
    type: 'gauge',
    name: 'handoff_crm_budget_used',
    help: 'Calls on all replicas in the last 24 hours that count against the budget.',
    aggregator: 'max',
  },
  crmBatchSize: {
    type: 'histogram',
    name: 'handoff_crm_batch_size',
    help: 'Requests that shared one call to Salesforce, by operation.',
    labels: ['operation'],
    buckets: [1, 2, 5, 10, 20, 50, 100, 200],
  },
  crmBatchSplits: {
    type: 'counter',
    name: 'handoff_crm_batch_splits_total',
    help: 'Failed batches that the gateway sent again in parts, to find the record at fault, by object.',
    labels: ['object'],
  },
  crmRetries: {
    type: 'counter',
    name: 'handoff_crm_retries_total',
    help: 'Calls and records that the gateway sent to Salesforce again, by the failure before.',
    labels: ['reason'],
  },
  crmQueueDepth: {
    type: 'level',
    name: 'handoff_crm_queue_depth',
    help: 'Requests waiting for a call to Salesforce; a list counts as 4.',
  },
  crmTurnedAway: {
    type: 'counter',
    name: 'handoff_crm_turned_away_total',
    help: 'Requests refused before any call to Salesforce, by reason: breaker, queue, quota or budget.',
    labels: ['reason'],
  },
  crmBreakerOpen: {
    type: 'gauge',
    name: 'handoff_crm_breaker_open',
    help: "1 while the gateway refuses requests because Salesforce isn't responding.",
    aggregator: 'max',
  },
  crmTokenAge: {
    type: 'clock',
    name: 'handoff_crm_token_age_seconds',
    help: 'How long this process has used its current Salesforce access token; 0 before the first call.',
    aggregator: 'max',
  },
  crmCertificateExpiresAt: {
    type: 'gauge',
    name: 'handoff_crm_certificate_expiry_timestamp_seconds',
    help: 'When the certificate in the Salesforce private key file expires; 0 if there is none.',
    aggregator: 'max',
  },
  crmTokenExpiresAt: {
    type: 'gauge',
    name: 'handoff_crm_token_expiry_timestamp_seconds',
    help: 'When the current Salesforce access token expires; 0 before the first call.',
    aggregator: 'max',
  },
  jobQueueDepth: {
    type: 'gauge',
    name: 'handoff_job_queue_depth',
    help: "Jobs by queue and state on all replicas, as of pg-boss's last count.",
    labels: ['queue', 'state'],
    aggregator: 'max',
  },
  jobFailures: {
    type: 'counter',
    name: 'handoff_job_failures_total',
    help: 'Failed job steps, including repeats of the job.',
    labels: ['queue', 'step'],
  },
  cacheRejected: {
    type: 'counter',
    name: 'handoff_cache_rejected_total',
    help: 'Values and messages in Redis that the gateway ignored because they had no valid authentication code.',
  },
  idempotencyOutcomes: {
    type: 'counter',
    name: 'handoff_idempotency_outcomes_total',
    help: 'Requests with an Idempotency-Key, by outcome.',
    labels: ['outcome'],
  },
  idempotencyStoredBytes: {
    type: 'counter',
    name: 'handoff_idempotency_stored_bytes_total',
    help: 'Bytes of answers stored for repeats, after compression.',
  },
} as const satisfies MetricRows;

export interface Metrics extends MetricsOf<typeof platformMetrics> {
  registry: Registry;
  httpRequestDuration: RequestDurations;
}

export function makeMetrics<T extends MetricRows>(rows: T, registers: Registry[]): MetricsOf<T> {
  return Object.fromEntries(
    Object.entries(rows).map(([key, row]) => [key, makeMetric(row, registers)]),
  ) as MetricsOf<T>;
}

function makeMetric(row: MetricRow, registers: Registry[]): Metric {
  const { name, help, labels = [] } = row;
  const options = { name, help, labelNames: [...labels], registers };
  if (row.type === 'histogram') return new Histogram({ ...options, buckets: [...row.buckets] });
  if (row.type !== 'counter')
    return new gauges[row.type]({ ...options, aggregator: row.aggregator ?? 'sum' });
  const counter = new Counter(options);
  if (row.watched !== undefined) counter.inc(row.watched, 0);
  return counter;
}

export function createMetrics<T extends MetricRows = MetricRows>(rows?: T): Metrics & MetricsOf<T> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Sums of others, with a suffix that Prometheus keeps for counters.
  for (const what of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`nodejs_active_${what}_total`);
  const registers = [registry];
  const platform = makeMetrics(platformMetrics, registers);
  platform.crmBudgetExhausted.set(Number.POSITIVE_INFINITY);
  return {
    registry,
    httpRequestDuration: new RequestDurations(registers),
    ...platform,
    ...makeMetrics(rows ?? ({} as T), registers),
  };
}

/** Seconds. */
const durationBounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const durationName = 'http_server_request_duration_seconds';

interface RequestLabels {
  http_request_method: string;
  http_route: string;
  http_response_status_code: number;
}

interface Series {
  labels: RequestLabels;
  /** Requests up to each bound and over the one before; last those over all bounds. */
  counts: number[];
  sum: number;
}

interface SeriesValue {
  metricName: string;
  labels: Partial<RequestLabels> & { le?: number | string };
  value: number;
}

/**
 * The histogram of all requests. Its values with their labels are made when it is read: the library's own histogram
 * checks and joins the labels for each request.
 */
class RequestDurations {
  readonly name = durationName;
  readonly help = 'Duration of requests by method, route pattern and status.';
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  readonly labelNames = ['http_request_method', 'http_route', 'http_response_status_code'] as const;
  readonly #series = new Map<string, Series>();

  constructor(registers: Registry[]) {
    // The library asks a metric for no more than this class has; its type names classes.
    for (const registry of registers) registry.registerMetric(this as unknown as Metric);
  }

  observe(labels: RequestLabels, seconds: number): void {
    const key = `${labels.http_request_method} ${labels.http_route} ${labels.http_response_status_code}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      series = { labels, counts: Array<number>(durationBounds.length + 1).fill(0), sum: 0 };
      this.#series.set(key, series);
    }
    const bucket = durationBounds.findIndex((bound) => seconds <= bound);
    const at = bucket === -1 ? durationBounds.length : bucket;
    series.counts[at] = (series.counts[at] ?? 0) + 1;
    series.sum += seconds;
  }

  async get() {
    const { help, type, aggregator } = this;
    return {
      name: durationName,
      help,
      type,
      aggregator,
      values: [...this.#series.values()].flatMap(valuesOf),
    };
  }
}

function valuesOf({ labels, counts, sum }: Series): SeriesValue[] {
  let count = 0;
  const buckets = counts.map((some, index): SeriesValue => {
    count += some;
    return {
      metricName: `${durationName}_bucket`,
      labels: { le: durationBounds[index] ?? '+Inf', ...labels },
      value: count,
    };
  });
  return [
    ...buckets,
    { metricName: `${durationName}_sum`, labels, value: sum },
    { metricName: `${durationName}_count`, labels, value: count },
  ];
}
