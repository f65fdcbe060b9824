import type { SharedCache } from '../cache/shared-cache.ts';
import type { Metrics } from '../observability/metrics.ts';
import { type Quota, RateCounter } from './rate-counter.ts';

const reconcileIntervalMs = 1000;
const sweepIntervalMs = 60_000;

export interface RateLimitsOptions {
  /** Requests a minute for each consumer; 0: no limit. */
  perMinute: number;
  /** Failed authentications a minute for each address; 0: no limit. */
  failedPerMinute: number;
  cache: SharedCache;
  metrics: Pick<Metrics, 'rateLimitRefusals'>;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

/** A limit as callers are told of it. */
export interface RateLimit {
  /** Its name in the RateLimit headers. */
  name: string;
  perMinute: number;
  take(key: string): Quota;
}

export interface RateLimits {
  /** By consumer id; undefined where it is off. */
  requests: RateLimit | undefined;
  /** By address; undefined where it is off. */
  failures: RateLimit | undefined;
  stop(): void;
}

/** The limits of the settings, reconciled with the other replicas each second until `stop`. */
export function createRateLimits(options: RateLimitsOptions): RateLimits {
  const { cache, metrics, clock = Date.now } = options;
  const counters: RateCounter[] = [];
  const limit = (name: string, perMinute: number): RateLimit | undefined => {
    if (perMinute === 0) return undefined;
    const counter = new RateCounter({ name, limit: perMinute, cache, clock });
    counters.push(counter);
    const refusals = metrics.rateLimitRefusals.labels({ limit: name });
    refusals.inc(0);
    const take = (key: string) => {
      const quota = counter.take(key);
      if (!quota.allowed) refusals.inc();
      return quota;
    };
    return { name, perMinute, take };
  };
  const requests = limit('requests', options.perMinute);
  const failures = limit('failed-authentication', options.failedPerMinute);
  const reconciling = setInterval(() => {
    // The cache says itself, in the log and in health, that it is away: counting goes on here.
    for (const counter of counters) counter.reconcile().catch(() => undefined);
  }, reconcileIntervalMs);
  const sweeping = setInterval(() => {
    for (const counter of counters) counter.sweep();
  }, sweepIntervalMs);
  reconciling.unref();
  sweeping.unref();
  return {
    requests,
    failures,
    stop: () => {
      clearInterval(reconciling);
      clearInterval(sweeping);
    },
  };
}
