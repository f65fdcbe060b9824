import type { Metrics } from '../../../platform/observability/metrics.ts';

export interface Point {
  requests: number;
  errors: number;
  refusals: number;
  /** Requests by upper bound of their duration in seconds, each bound with all below it, as Prometheus has it. */
  durations: Record<string, number>;
  crmCalls: number;
  quotaUsed: number;
  quotaLimit: number;
  waiting: number;
  /** Events that a webhook endpoint took. */
  delivered: number;
  /** Attempts to deliver an event that failed. */
  undelivered: number;
  /** Age in seconds of the oldest event that waits for a webhook endpoint; 0 where none does. */
  oldestDelivery: number;
  /** When the reader of the CRM's changes last read all of them, seconds since 1970; 0 before that. */
  changesReadAt: number;
}

export const nothing: Point = {
  requests: 0,
  errors: 0,
  refusals: 0,
  durations: {},
  crmCalls: 0,
  quotaUsed: 0,
  quotaLimit: 0,
  waiting: 0,
  delivered: 0,
  undelivered: 0,
  oldestDelivery: 0,
  changesReadAt: 0,
};

const counts = ['requests', 'errors', 'refusals', 'crmCalls', 'delivered', 'undelivered'] as const;
const levels = ['quotaUsed', 'quotaLimit', 'waiting', 'oldestDelivery', 'changesReadAt'] as const;

export async function readTotals(metrics: Metrics): Promise<Point> {
  const crmCalls = (await metrics.crmCalls.get()).values.reduce((total, { value }) => total + value, 0);
  const deliveries = await deliveriesIn(metrics);
  return {
    ...countRequests((await metrics.httpRequestDuration.get()).values),
    crmCalls,
    quotaUsed: await valueOf(metrics.crmApiUsage),
    quotaLimit: await valueOf(metrics.crmApiLimit),
    waiting: await valueOf(metrics.registry.getSingleMetric('handoff_accepted_waiting')),
    ...deliveries,
    oldestDelivery: await valueOf(
      metrics.registry.getSingleMetric('handoff_deliveries_oldest_pending_seconds'),
    ),
    changesReadAt: await valueOf(metrics.registry.getSingleMetric('handoff_changes_read_timestamp_seconds')),
  };
}

async function deliveriesIn({ registry }: Metrics): Promise<Pick<Point, 'delivered' | 'undelivered'>> {
  const attempts = (await registry.getSingleMetric('handoff_deliveries_total')?.get())?.values ?? [];
  const found = { delivered: 0, undelivered: 0 };
  for (const { labels, value } of attempts) {
    const { result } = labels;
    if (result === 'delivered') found.delivered += value;
    else if (result === 'failed' || result === 'given_up') found.undelivered += value;
  }
  return found;
}

const isCount = (name: string | undefined) => name?.endsWith('_count') ?? false;

function countRequests(
  values: readonly {
    metricName?: string;
    labels: { le?: string | number; http_response_status_code?: string | number };
    value: number;
  }[],
): Pick<Point, 'requests' | 'errors' | 'refusals' | 'durations'> {
  const found = { requests: 0, errors: 0, refusals: 0, durations: {} as Record<string, number> };
  for (const { metricName, labels, value } of values) {
    const { le, http_response_status_code: status } = labels;
    if (le !== undefined) found.durations[le] = (found.durations[le] ?? 0) + value;
    if (!isCount(metricName)) continue;
    found.requests += value;
    if (Number(status) >= 500) found.errors += value;
    else if (Number(status) >= 400) found.refusals += value;
  }
  return found;
}

async function valueOf(
  gauge: { get(): Promise<{ values: { value: number }[] }> } | undefined,
): Promise<number> {
  return (await gauge?.get())?.values[0]?.value ?? 0;
}

export function difference(now: Point, before: Point): Point {
  const change = { ...now, durations: { ...now.durations } };
  for (const name of counts) change[name] -= before[name];
  for (const bound of Object.keys(now.durations)) {
    change.durations[bound] = (now.durations[bound] ?? 0) - (before.durations[bound] ?? 0);
  }
  return change;
}

export function sum(a: Point, b: Point): Point {
  const both = { ...a, durations: { ...a.durations } };
  for (const name of counts) both[name] += b[name];
  for (const name of levels) both[name] = Math.max(a[name], b[name]);
  for (const [bound, count] of Object.entries(b.durations)) {
    both.durations[bound] = (both.durations[bound] ?? 0) + count;
  }
  return both;
}

/** The duration in milliseconds that this share of the requests stayed below; undefined where there were none. */
export function quantile({ durations, requests }: Point, share: number): number | undefined {
  if (requests === 0) return undefined;
  const bounds = Object.keys(durations)
    .map((text) => ({ text, bound: text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text) }))
    .sort((a, b) => a.bound - b.bound);
  const wanted = share * requests;
  let [low, below] = [0, 0];
  for (const { text, bound } of bounds) {
    const count = durations[text] ?? 0;
    // Longer than the last bound: that is all that is known.
    if (bound === Number.POSITIVE_INFINITY) break;
    if (count >= wanted && count > below)
      return 1000 * (low + ((bound - low) * (wanted - below)) / (count - below));
    [low, below] = [bound, count];
  }
  return 1000 * low;
}
