import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import type { Counter, Gauge } from 'prom-client';
import { createAllMetrics } from '../../../../src/app/metrics.ts';
import { Activity } from '../../../../src/features/console/activity/activity.ts';
import { createMemoryCache } from '../../../../src/platform/cache/memory.ts';
import { createRedisCache } from '../../../../src/platform/cache/redis.ts';
import { CacheUnavailable, type SharedCache } from '../../../../src/platform/cache/shared-cache.ts';
import type { Metrics } from '../../../../src/platform/observability/metrics.ts';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { recordLog } from '../../../support/log.ts';
import { findRedis } from '../../../support/redis.ts';

const beginning = Date.parse('2027-03-01T08:00:00Z');

/** Two replicas with a clock that stands still until it is moved on. */
function replicasOn(cache: SharedCache, environment = 'test') {
  let now = beginning;
  const replica = () => {
    const metrics = createAllMetrics();
    const activity = new Activity({ cache, environment, metrics, clock: () => now });
    return { metrics, activity };
  };
  return {
    replicas: [replica(), replica()] as const,
    moveOn: (seconds: number) => {
      now += seconds * 1000;
    },
  };
}

function request({ httpRequestDuration }: Metrics, seconds: number, status = 200): void {
  const labels = { http_request_method: 'GET', http_route: '/v1/quotes', http_response_status_code: status };
  httpRequestDuration.observe(labels, seconds);
}

async function valuesOf(activity: Activity): Promise<Record<string, [string, number][]>> {
  return Object.fromEntries((await activity.series()).map(({ name, points }) => [name, points]));
}

for (const kind of ['memory', 'redis'] as const) {
  describe(`activity in ${kind}`, () => {
    let cache: SharedCache | undefined;
    before(async () => {
      const url = kind === 'redis' ? await findRedis() : undefined;
      if (kind === 'memory') cache = createMemoryCache();
      else if (url !== undefined) cache = createRedisCache({ url, log: recordLog().log });
      // Until it is connected it is unavailable.
      const opened = cache;
      if (opened?.kind === 'redis') await eventually(() => opened.checkHealth());
    });
    after(() => cache?.close());

    test('counts deliveries to webhook endpoints', async (context) => {
      if (cache === undefined) return context.skip('there is no Redis');
      const { replicas, moveOn } = replicasOn(cache, randomUUID());
      const [{ metrics, activity }, other] = replicas;
      const attempts = other.metrics.registry.getSingleMetric('handoff_deliveries_total') as Counter;
      for (const result of ['delivered', 'delivered', 'failed', 'postponed']) attempts.inc({ result });
      const oldest = metrics.registry.getSingleMetric('handoff_deliveries_oldest_pending_seconds') as Gauge;
      oldest.set(75);
      moveOn(10);
      await Promise.all([activity.record(), other.activity.record()]);
      const seen = await valuesOf(activity);
      const time = new Date(beginning).toISOString();
      assert.deepEqual(seen['webhooks_delivered'], [[time, 2]]);
      assert.deepEqual(seen['webhooks_failed'], [[time, 1]]);
      assert.deepEqual(seen['webhooks_oldest'], [[time, 75]]);
    });

    test('adds up what the replicas did in each interval, and shows it for an hour', async (context) => {
      if (cache === undefined) return context.skip('there is no Redis');
      const { replicas, moveOn } = replicasOn(cache, randomUUID());
      const [{ metrics, activity }, other] = replicas;
      for (let i = 0; i < 98; i++) request(metrics, 0.02);
      request(other.metrics, 0.7, 503);
      request(other.metrics, 0.7);
      request(other.metrics, 0.001, 404);
      other.metrics.crmCalls.inc({ operation: 'query' });
      other.metrics.crmApiUsage.set(17);
      other.metrics.crmApiLimit.set(1000);
      moveOn(10);
      await Promise.all([activity.record(), other.activity.record()]);
      request(metrics, 0.02);
      moveOn(10);
      await activity.record();
      const time = new Date(beginning).toISOString();
      const later = new Date(beginning + 10_000).toISOString();
      for (const seen of [await valuesOf(activity), await valuesOf(other.activity)]) {
        assert.deepEqual(seen['requests'], [
          [time, 101],
          [later, 1],
        ]);
        assert.deepEqual(seen['errors'], [
          [time, 1],
          [later, 0],
        ]);
        assert.deepEqual(seen['refusals'], seen['errors']);
        assert.deepEqual(seen['crm_calls'], [
          [time, 1],
          [later, 0],
        ]);
        assert.deepEqual(seen['crm_quota_used'], [[time, 17]]);
        const [[, median] = ['', 0]] = seen['latency_p50'] ?? [];
        const [[, high] = ['', 0]] = seen['latency_p99'] ?? [];
        assert.ok(median > 10 && median < 25, String(median));
        assert.ok(high > 500 && high <= 750, String(high));
      }
      moveOn(3600);
      assert.deepEqual((await valuesOf(activity))['requests'], []);
    });
  });
}

test('while the cache is unavailable, a replica shows what it did itself, and shares it later', async () => {
  const memory = createMemoryCache();
  let isUnavailable = true;
  const fail = async () => {
    throw new CacheUnavailable('unavailable');
  };
  const cache = new Proxy(memory, {
    get: (target, name: keyof SharedCache) => {
      const own = target[name];
      if (typeof own !== 'function') return own;
      return isUnavailable ? fail : own.bind(target);
    },
  });
  const { replicas, moveOn } = replicasOn(cache);
  const [{ metrics, activity }, other] = replicas;
  request(metrics, 0.02);
  moveOn(10);
  await activity.record();
  assert.equal((await valuesOf(activity))['requests']?.[0]?.[1], 1);
  assert.deepEqual((await valuesOf(other.activity))['requests'], []);
  moveOn(300);
  isUnavailable = false;
  // Looked at before it is shared.
  assert.deepEqual((await valuesOf(other.activity))['requests'], []);
  await activity.record();
  for (let passed = 0; passed < 60; passed += 10) {
    moveOn(10);
    await other.activity.record();
  }
  assert.equal((await valuesOf(other.activity))['requests']?.[0]?.[1], 1);
});

describe('GET /v1/admin/activity', () => {
  const gateway = useGateway();

  test('names every series, for those who may read consumers', async () => {
    const response = await gateway.request('/v1/admin/activity', { as: gateway.admin });
    const { interval_seconds, series } = (await response.json()) as {
      interval_seconds: number;
      series: { name: string; unit: string; points: unknown[] }[];
    };
    assert.equal(interval_seconds, 10);
    const names = series.map(({ name }) => name);
    for (const name of [
      'requests',
      'errors',
      'refusals',
      'latency_p50',
      'latency_p99',
      'crm_calls',
      'crm_quota_used',
    ])
      assert.ok(names.includes(name), name);
    assert.equal((await gateway.request('/v1/admin/activity')).status, 403);
  });
});
