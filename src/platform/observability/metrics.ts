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

function idempotencyMetrics(registers: Registry[]) {
  return {
    idempotencyOutcomes: new Counter({
      name: 'handoff_idempotency_outcomes_total',
      help: 'Keyed requests by their outcome in the ledger.',
      labelNames: ['outcome'] as const,
      registers,
    }),
    idempotencyStoredBytes: new Counter({
      name: 'handoff_idempotency_stored_bytes_total',
      help: 'Bytes of answers that were stored for repeats, as they are stored: long ones compressed.',
      registers,
    }),
  };
}

function cacheMetrics(registers: Registry[]) {
  return {
    cacheRejected: new Counter({
      name: 'handoff_cache_rejected_total',
      help: 'Values and messages in Redis that were ignored, since they have no valid authentication code.',
      registers,
    }),
  };
}

function batchMetrics(registers: Registry[]) {
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
      help: 'When all consumers and keys were last read from the secrets manager without a failure.',
      aggregator: 'min',
      registers,
    }),
    consumerFailedAttempts: new Counter({
      name: 'handoff_consumer_failed_attempts_total',
      help: 'Attempts with the API key of a consumer that were refused with 401 or 403, by consumer.',
      labelNames: ['consumer_id'] as const,
      registers,
    }),
    consumerValidUntil: new Gauge({
      name: 'handoff_consumer_valid_until_timestamp_seconds',
      help: 'When the credentials of each enabled consumer that has a validUntil end.',
      labelNames: ['consumer_id'] as const,
      aggregator: 'max',
      registers,
    }),
    consumerNewNetworks: new Counter({
      name: 'handoff_consumer_new_networks_total',
      help: 'Uses of valid credentials from a network (/24 of IPv4, /48 of IPv6) that was new to their consumer; the log names both.',
      registers,
    }),
    auditAttemptsDropped: new Counter({
      name: 'handoff_audit_attempts_dropped_total',
      help: 'Authentication attempts that never reached the database, which was unavailable for too long; the log has them.',
      registers,
    }),
    tlsHandshakeFailures: new Counter({
      name: 'handoff_tls_handshake_failures_total',
      help: 'Connections to the API port that never got through the TLS handshake.',
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
      help: '1 while this process takes requests; 0 before it is warm and while it stops.',
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
      help: 'Requests of test consumers by status; the other metrics of requests leave them out.',
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
        help: 'Connections to the API that were refused at the limit, closed while idle to admit another, or closed because answers were left unread.',
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
      help: 'Duration of calls to the CRM by operation and outcome, waiting for a slot left out.',
      labelNames: ['operation', 'outcome'] as const,
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
      registers,
    }),
    crmTokenCacheHits: new Counter({
      name: 'handoff_crm_token_cache_hits_total',
      help: 'Reads of the CRM access token that found one in the shared cache.',
      registers,
    }),
    crmTokenCacheMisses: new Counter({
      name: 'handoff_crm_token_cache_misses_total',
      help: 'Reads of the CRM access token that found none in the shared cache.',
      registers,
    }),
    crmTokenAcquisitions: startingAtZero(
      { outcome: 'permanent' },
      {
        name: 'handoff_crm_token_acquisitions_total',
        help: 'Requests to the token endpoint of the CRM by outcome.',
        labelNames: ['outcome'] as const,
        registers,
      },
    ),
    crmOwnerFallbacks: new Counter({
      name: 'handoff_crm_owner_fallbacks_total',
      help: 'Records that got another owner, since the CRM refused the one whom the actor names.',
      registers,
    }),
    crmRejected: new Counter({
      name: 'handoff_crm_rejected_total',
      help: 'Writes that the CRM refused, by object and the first error code.',
      labelNames: ['object', 'code'] as const,
      registers,
    }),
    crmUnreadableFields: new Counter({
      name: 'handoff_crm_unreadable_fields_total',
      help: 'Fields of CRM records whose content is not of its type and was shown as null.',
      labelNames: ['resource', 'field'] as const,
      registers,
    }),
  };
}

function quotaMetrics(registers: Registry[]) {
  const crmBudgetExhausted = new Gauge({
    name: 'handoff_crm_budget_exhausted_seconds',
    help: "When no call of the budget will be free at the last hour's rate, from now; +Inf: it lasts, or there is none.",
    aggregator: 'min',
    registers,
  });
  crmBudgetExhausted.set(Number.POSITIVE_INFINITY);
  return {
    crmBudgetExhausted,
    crmCalls: new Counter({
      name: 'handoff_crm_calls_total',
      help: 'Calls that were sent to the CRM and that it meters, by operation.',
      labelNames: ['operation'] as const,
      registers,
    }),
    crmApiUsage: new Gauge({
      name: 'handoff_crm_api_usage',
      help: 'Calls that the org has used of its daily quota, as the CRM last reported.',
      aggregator: 'max',
      registers,
    }),
    crmApiLimit: new Gauge({
      name: 'handoff_crm_api_limit',
      help: 'Daily quota of calls of the org, as the CRM last reported.',
      aggregator: 'max',
      registers,
    }),
    crmBudget: new Gauge({
      name: 'handoff_crm_budget',
      help: 'Calls to the CRM in 24 hours that the service may make; 0: no budget is set.',
      aggregator: 'max',
      registers,
    }),
    crmBudgetUsed: new Gauge({
      name: 'handoff_crm_budget_used',
      help: 'Calls of the last 24 hours that count against the budget, of all replicas.',
      aggregator: 'max',
      registers,
    }),
  };
}

function tokenMetrics(registers: Registry[]) {
  return {
    crmTokenAge: new ClockGauge({
      name: 'handoff_crm_token_age_seconds',
      help: 'How long this process has used the CRM access token of its last call; 0 before the first call.',
      aggregator: 'max',
      registers,
    }),
    crmCertificateExpiresAt: new Gauge({
      name: 'handoff_crm_certificate_expiry_timestamp_seconds',
      help: "When the certificate beside the CRM's private key ends; 0 where there is none.",
      aggregator: 'max',
      registers,
    }),
    crmTokenExpiresAt: new Gauge({
      name: 'handoff_crm_token_expiry_timestamp_seconds',
      help: 'When the CRM access token that is used expires; 0 before the first call.',
      aggregator: 'max',
      registers,
    }),
  };
}

function gatheringMetrics(registers: Registry[]) {
  return {
    crmQueueDepth: new LevelGauge({
      name: 'handoff_crm_queue_depth',
      help: 'Requests that wait for a call to the CRM; a list counts as 4.',
      registers,
    }),
    crmTurnedAway: new Counter({
      name: 'handoff_crm_turned_away_total',
      help: 'Requests that were refused before a call to the CRM, by reason: breaker, queue, quota or budget.',
      labelNames: ['reason'] as const,
      registers,
    }),
    crmBreakerOpen: new Gauge({
      name: 'handoff_crm_breaker_open',
      help: '1 while requests are refused because the CRM does not answer.',
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
