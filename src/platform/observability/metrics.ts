import {
  Counter,
  type CounterConfiguration,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  Registry,
} from 'prom-client';
import { monotonicMs } from '../base/chance.ts';
import { RequestDurations } from './request-durations.ts';

function jobMetrics(registers: Registry[]) {
  return {
    jobQueueDepth: new Gauge({
      name: 'handoff_job_queue_depth',
      help: "Jobs by queue and state on all replicas, as of pg-boss's last count.",
      labelNames: ['queue', 'state'] as const,
      aggregator: 'max',
      registers,
    }),
    jobFailures: new Counter({
      name: 'handoff_job_failures_total',
      help: 'Failed job steps, including repeats of the job.',
      labelNames: ['queue', 'step'] as const,
      registers,
    }),
  };
}

function idempotencyMetrics(registers: Registry[]) {
  return {
    idempotencyOutcomes: new Counter({
      name: 'handoff_idempotency_outcomes_total',
      help: 'Requests with an Idempotency-Key, by outcome.',
      labelNames: ['outcome'] as const,
      registers,
    }),
    idempotencyStoredBytes: new Counter({
      name: 'handoff_idempotency_stored_bytes_total',
      help: 'Bytes of answers stored for repeats, after compression.',
      registers,
    }),
  };
}

function cacheMetrics(registers: Registry[]) {
  return {
    cacheRejected: new Counter({
      name: 'handoff_cache_rejected_total',
      help: 'Values and messages in Redis that the gateway ignored because they had no valid authentication code.',
      registers,
    }),
  };
}

function batchMetrics(registers: Registry[]) {
  return {
    crmBatchSize: new Histogram({
      name: 'handoff_crm_batch_size',
      help: 'Requests that shared one call to Salesforce, by operation.',
      labelNames: ['operation'] as const,
      buckets: [1, 2, 5, 10, 20, 50, 100, 200],
      registers,
    }),
    crmBatchSplits: new Counter({
      name: 'handoff_crm_batch_splits_total',
      help: 'Failed batches that the gateway sent again in parts, to find the record at fault, by object.',
      labelNames: ['object'] as const,
      registers,
    }),
    crmRetries: new Counter({
      name: 'handoff_crm_retries_total',
      help: 'Calls and records that the gateway sent to Salesforce again, by the failure before.',
      labelNames: ['reason'] as const,
      registers,
    }),
  };
}

function accessMetrics(registers: Registry[]) {
  return {
    authenticationAttempts: new Counter({
      name: 'handoff_authentication_attempts_total',
      help: 'Authentication attempts by result.',
      labelNames: ['result'] as const,
      registers,
    }),
    secretsLoadedAt: new Gauge({
      name: 'handoff_secrets_loaded_timestamp_seconds',
      help: 'When the gateway last read all consumers and keys from the secrets manager.',
      aggregator: 'min',
      registers,
    }),
    consumerFailedAttempts: new Counter({
      name: 'handoff_consumer_failed_attempts_total',
      help: "Attempts with a consumer's API key that got 401 or 403, by consumer.",
      labelNames: ['consumer_id'] as const,
      registers,
    }),
    consumerValidUntil: new Gauge({
      name: 'handoff_consumer_valid_until_timestamp_seconds',
      help: "When an enabled consumer's credentials expire, for consumers with validUntil.",
      labelNames: ['consumer_id'] as const,
      aggregator: 'max',
      registers,
    }),
    consumerNewNetworks: new Counter({
      name: 'handoff_consumer_new_networks_total',
      help: 'Uses of valid credentials from a network that was new to the consumer (IPv4 /24, IPv6 /48); the log names both.',
      registers,
    }),
    auditAttemptsDropped: new Counter({
      name: 'handoff_audit_attempts_dropped_total',
      help: 'Authentication attempts that were logged but not stored because the database was unavailable for too long.',
      registers,
    }),
    tlsHandshakeFailures: new Counter({
      name: 'handoff_tls_handshake_failures_total',
      help: 'Connections to the API port that failed the TLS handshake.',
      registers,
    }),
  };
}

export type MetricGroup<M extends object> = (registers: Registry[]) => M;

/**
 * The metrics of the platform, with those of `group`; labels have few values, and no id but that of a consumer. With several
 * workers their metrics are added up: where a sum means nothing, `aggregator` names what to show instead.
 */
export function createMetrics<M extends object = object>(group?: MetricGroup<M>) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Sums of others, with a suffix that Prometheus keeps for counters.
  for (const what of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`nodejs_active_${what}_total`);
  const registers = [registry];
  return {
    registry,
    ...requestMetrics(registers),
    ready: new Gauge({
      name: 'handoff_ready',
      help: '1 while this process accepts requests; 0 while it warms up or stops.',
      aggregator: 'min',
      registers,
    }),
    ...accessMetrics(registers),
    ...crmMetrics(registers),
    ...quotaMetrics(registers),
    ...batchMetrics(registers),
    ...gatheringMetrics(registers),
    ...tokenMetrics(registers),
    ...jobMetrics(registers),
    ...cacheMetrics(registers),
    ...idempotencyMetrics(registers),
    ...(group?.(registers) as M),
  };
}

function requestMetrics(registers: Registry[]) {
  return {
    httpRequestDuration: new RequestDurations(registers),
    testRequests: new Counter({
      name: 'handoff_test_requests_total',
      help: "Test consumers' requests by status; no other request metric counts them.",
      labelNames: ['http_response_status_code'] as const,
      registers,
    }),
    httpActiveRequests: new LevelGauge({
      name: 'http_server_active_requests',
      help: 'Requests in flight.',
      registers,
    }),
    connectionsEnded: startingAtZero(
      { reason: 'limit' },
      {
        name: 'handoff_connections_ended_total',
        help: "Connections to the API that the gateway refused at the limit, closed while idle to accept another, or closed because the client didn't read its answers.",
        labelNames: ['reason'] as const,
        registers,
      },
    ),
    rateLimitRefusals: new Counter({
      name: 'handoff_rate_limit_refusals_total',
      help: 'Requests that a rate limit refused, by limit.',
      labelNames: ['limit'] as const,
      registers,
    }),
  };
}

function crmMetrics(registers: Registry[]) {
  return {
    crmCallDuration: new Histogram({
      name: 'handoff_crm_call_duration_seconds',
      help: 'Duration of calls to Salesforce by operation and outcome, without the wait for a slot.',
      labelNames: ['operation', 'outcome'] as const,
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
      registers,
    }),
    crmTokenCacheHits: new Counter({
      name: 'handoff_crm_token_cache_hits_total',
      help: 'Reads of the Salesforce access token that found one in the shared cache.',
      registers,
    }),
    crmTokenCacheMisses: new Counter({
      name: 'handoff_crm_token_cache_misses_total',
      help: 'Reads of the Salesforce access token that found none in the shared cache.',
      registers,
    }),
    crmTokenAcquisitions: startingAtZero(
      { outcome: 'permanent' },
      {
        name: 'handoff_crm_token_acquisitions_total',
        help: "Requests to Salesforce's token endpoint by outcome.",
        labelNames: ['outcome'] as const,
        registers,
      },
    ),
    crmOwnerFallbacks: new Counter({
      name: 'handoff_crm_owner_fallbacks_total',
      help: 'Records that got another owner because Salesforce refused the one that the actor names.',
      registers,
    }),
    crmRejected: new Counter({
      name: 'handoff_crm_rejected_total',
      help: 'Writes that Salesforce refused, by object and first error code.',
      labelNames: ['object', 'code'] as const,
      registers,
    }),
    crmUnreadableFields: new Counter({
      name: 'handoff_crm_unreadable_fields_total',
      help: "Fields of Salesforce records that the API showed as null because their value didn't match their type.",
      labelNames: ['resource', 'field'] as const,
      registers,
    }),
  };
}

function quotaMetrics(registers: Registry[]) {
  const crmBudgetExhausted = new Gauge({
    name: 'handoff_crm_budget_exhausted_seconds',
    help: "Seconds until the call budget runs out at the last hour's rate; +Inf if it lasts or isn't set.",
    aggregator: 'min',
    registers,
  });
  crmBudgetExhausted.set(Number.POSITIVE_INFINITY);
  return {
    crmBudgetExhausted,
    crmCalls: new Counter({
      name: 'handoff_crm_calls_total',
      help: 'Calls to Salesforce that count against its quota, by operation.',
      labelNames: ['operation'] as const,
      registers,
    }),
    crmApiUsage: new Gauge({
      name: 'handoff_crm_api_usage',
      help: 'Calls of its daily quota that the org has used, as Salesforce last reported.',
      aggregator: 'max',
      registers,
    }),
    crmApiLimit: new Gauge({
      name: 'handoff_crm_api_limit',
      help: "The org's daily call quota, as Salesforce last reported.",
      aggregator: 'max',
      registers,
    }),
    crmBudget: new Gauge({
      name: 'handoff_crm_budget',
      help: 'Calls to Salesforce that the gateway may make in 24 hours; 0 if no budget is set.',
      aggregator: 'max',
      registers,
    }),
    crmBudgetUsed: new Gauge({
      name: 'handoff_crm_budget_used',
      help: 'Calls on all replicas in the last 24 hours that count against the budget.',
      aggregator: 'max',
      registers,
    }),
  };
}

function tokenMetrics(registers: Registry[]) {
  return {
    crmTokenAge: new ClockGauge({
      name: 'handoff_crm_token_age_seconds',
      help: 'How long this process has used its current Salesforce access token; 0 before the first call.',
      aggregator: 'max',
      registers,
    }),
    crmCertificateExpiresAt: new Gauge({
      name: 'handoff_crm_certificate_expiry_timestamp_seconds',
      help: 'When the certificate in the Salesforce private key file expires; 0 if there is none.',
      aggregator: 'max',
      registers,
    }),
    crmTokenExpiresAt: new Gauge({
      name: 'handoff_crm_token_expiry_timestamp_seconds',
      help: 'When the current Salesforce access token expires; 0 before the first call.',
      aggregator: 'max',
      registers,
    }),
  };
}

function gatheringMetrics(registers: Registry[]) {
  return {
    crmQueueDepth: new LevelGauge({
      name: 'handoff_crm_queue_depth',
      help: 'Requests waiting for a call to Salesforce; a list counts as 4.',
      registers,
    }),
    crmTurnedAway: new Counter({
      name: 'handoff_crm_turned_away_total',
      help: 'Requests refused before any call to Salesforce, by reason: breaker, queue, quota or budget.',
      labelNames: ['reason'] as const,
      registers,
    }),
    crmBreakerOpen: new Gauge({
      name: 'handoff_crm_breaker_open',
      help: "1 while the gateway refuses requests because Salesforce isn't responding.",
      aggregator: 'max',
      registers,
    }),
  };
}

/**
 * A counter of which alerts watch one series for its first event. Prometheus sees no increase in a series that begins
 * above 0, so that one is there from the start.
 */
export function startingAtZero<L extends string>(
  watched: Partial<Record<L, string>>,
  configuration: CounterConfiguration<L>,
): Counter<L> {
  const counter = new Counter(configuration);
  counter.inc(watched, 0);
  return counter;
}

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

export type Metrics = ReturnType<typeof createMetrics>;
