import { clearInterval, setInterval, wallMs } from '../../platform/base/chance.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { RateCounter, type RateLimitResult } from './rate-counter.ts';

const reconcileIntervalMs = 1000;
const sweepIntervalMs = 60_000;
/** Attempts of one consumer a minute that are stored one by one where no limit bounds them; of more, sums are stored. */
const refusalsStoredPerMinute = 60;

export interface RateLimit {
  name: string;
  perMinute: number;
  take(key: string, own?: number | null): RateLimitResult;
  isReached(key: string): boolean;
}

/** Reconciles with the other replicas each second until `stop`. */
export function createRateLimits(options: {
  /** Requests a minute for each consumer; 0: no limit. */
  perMinute: number;
  /** Failed authentications a minute for each address; 0: no limit. */
  failedPerMinute: number;
  /** Requests without valid credentials a minute for each address; 0: no limit. */
  publicPerMinute: number;
  cache: SharedCache;
  metrics: Pick<Metrics, 'rateLimitRefusals'>;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}) {
  const { cache, metrics, clock = wallMs } = options;
  const counters: RateCounter[] = [];
  const count = (name: string, perMinute: number): RateLimit => {
    const counter = new RateCounter({ name, cache, clock });
    counters.push(counter);
    const take = (key: string, own?: number | null) => counter.take(key, own ?? perMinute);
    return { name, perMinute, take, isReached: (key) => counter.isReached(key, perMinute) };
  };
  const limit = (name: string, perMinute: number): RateLimit => {
    const counted = count(name, perMinute);
    const refused = metrics.rateLimitRefusals.labels({ limit: name });
    refused.inc(0);
    const take = (key: string, own?: number | null) => {
      const result = counted.take(key, own);
      if (!result.allowed) refused.inc();
      return result;
    };
    return { ...counted, take };
  };
  const unlessOff = (name: string, perMinute: number) =>
    perMinute === 0 ? undefined : limit(name, perMinute);
  const requests = limit('requests', options.perMinute);
  const failures = unlessOff('failed-authentication', options.failedPerMinute);
  const unauthenticated = unlessOff('public', options.publicPerMinute);
  const refusals = count('refusals', refusalsStoredPerMinute);
  const reconciling = setInterval(() => {
    // The cache itself reports in log and health that it is unavailable: counting goes on here.
    for (const counter of counters) counter.reconcile().catch(() => undefined);
  }, reconcileIntervalMs);
  const sweeping = setInterval(() => {
    for (const counter of counters) counter.sweep();
  }, sweepIntervalMs);
  reconciling.unref();
  sweeping.unref();
  return {
    /** By consumer id. Where it is off it holds for consumers with a limit of their own only. */
    requests,
    /** By address; undefined where it is off. */
    failures,
    /** By address; undefined where it is off. */
    unauthenticated,
    /** By consumer id: counts requests that were refused or needed no credentials, and refuses none itself. */
    refusals,
    stop: (): void => {
      clearInterval(reconciling);
      clearInterval(sweeping);
    },
  };
}

export type RateLimits = ReturnType<typeof createRateLimits>;
