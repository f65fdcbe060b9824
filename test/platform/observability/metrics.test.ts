import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { before, describe, test } from 'node:test';
import { createAllMetrics } from '../../../src/app/metrics.ts';
import { documentedRoutes } from '../../../src/app/routes.ts';
import { WorkerMetrics } from '../../../src/platform/observability/worker-metrics.ts';
import { member } from '../../../src/records/members.ts';
import { booking, quote } from '../../../src/records/quotes-and-bookings.ts';
import { type TestGateway, useGateway } from '../../support/gateway.ts';
import { lintMetrics, type Sample, samplesOf } from '../../support/metrics-lint.ts';

describe('the metrics', () => {
  test('are named and described as Prometheus asks', async () => {
    assert.deepEqual(lintMetrics(await createAllMetrics().registry.metrics()), []);
  });

  test('would be found out if they were not', () => {
    const page = `# HELP Requests_ms requests
# TYPE Requests_ms counter
# HELP handoff_things_total Things of some kind that are there.
# TYPE handoff_things_total gauge
# TYPE handoff_wait_seconds_sum histogram`;
    assert.deepEqual(lintMetrics(page), [
      'Requests_ms has no help',
      'Requests_ms is not in lower case with underscores',
      'Requests_ms has no prefix of ours or of Node',
      'Requests_ms is a counter without _total',
      'Requests_ms has a unit that is no base unit',
      'handoff_things_total has _total and is no counter',
      'handoff_wait_seconds_sum has no help',
      'handoff_wait_seconds_sum has a suffix that histograms add',
    ]);
  });

  test('show the delay of the event loop', async () => {
    const page = await createAllMetrics().registry.metrics();
    assert.match(page, /^nodejs_eventloop_lag_p99_seconds \d/m);
  });

  test('count what workers that end at once have counted', async () => {
    const workers = new WorkerMetrics();
    for (const pid of [1, 2, 3]) {
      const { registry, auditAttemptsDropped } = createAllMetrics();
      auditAttemptsDropped.inc(10 ** pid);
      workers.take(pid, await registry.getMetricsAsJSON());
    }
    const dropped = async () =>
      samplesOf(await workers.metrics()).find(({ name }) => name === 'handoff_audit_attempts_dropped_total')
        ?.value;
    assert.equal(await dropped(), 1110);
    workers.keep(1);
    workers.keep(2);
    assert.equal(await dropped(), 1110);
    assert.equal(await dropped(), 1110);
  });
});

describe('the metrics page after traffic', () => {
  const gateway = useGateway({ RATE_LIMIT_PER_MINUTE: '40', RATE_LIMIT_FAILED_PER_MINUTE: '3' });
  let page: string;
  let samples: Sample[];

  before(async () => {
    await sendAllKinds(gateway);
    page = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    samples = samplesOf(page);
  });

  const valueOf = (name: string, labels: Record<string, string> = {}) =>
    samples.find(
      (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
    )?.value;

  test('is as Prometheus asks', () => {
    assert.deepEqual(lintMetrics(page), []);
  });

  test('passes promtool', (context) => {
    const { status, error, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: page });
    if (error) return context.skip('promtool is not installed (Debian package prometheus)');
    assert.equal(status, 0, `${stdout.toString()}${stderr.toString()}`);
  });

  test('has labels from known sets only, whatever strangers send', () => {
    assert.ok(samples.length > 100);
    const ours = samples.filter(({ name }) => !/^(nodejs|process)_/.test(name));
    const strange = ours.flatMap(({ name, labels }) =>
      Object.entries(labels)
        .filter(([label, value]) => !isKnown(label, value))
        .map(([label, value]) => `${name}{${label}="${value}"}`),
    );
    assert.deepEqual(strange, []);
  });

  test('counts requests, also those with methods that nobody knows', () => {
    const count = 'http_server_request_duration_seconds_count';
    assert.ok(valueOf(count, { http_route: '/v1/quotes', http_response_status_code: '201' }));
    assert.ok(valueOf(count, { http_route: 'none', http_response_status_code: '404' }));
    assert.ok(
      valueOf(count, { http_route: 'none', http_response_status_code: '400' }),
      'a path that is none',
    );
    assert.ok(valueOf(count, { http_request_method: '_OTHER', http_response_status_code: '405' }));
  });

  test('shows no request in flight when none is, readiness, and the token in use', () => {
    assert.equal(valueOf('http_server_active_requests'), 0);
    assert.equal(valueOf('handoff_ready'), 1);
    const now = Date.now() / 1000;
    const age = valueOf('handoff_crm_token_age_seconds') ?? 0;
    assert.ok(age > 0 && age < 120);
    const expiry = valueOf('handoff_crm_token_expiry_timestamp_seconds') ?? 0;
    assert.ok(expiry > now + 3600 && expiry <= now + 7200);
  });

  test('counts what the rate limits refuse', () => {
    const refusals = 'handoff_rate_limit_refusals_total';
    assert.ok((valueOf(refusals, { limit: 'requests' }) ?? 0) > 0);
    assert.ok((valueOf(refusals, { limit: 'failed-authentication' }) ?? 0) > 0);
  });
});

/** Requests of every kind that a caller can think of, so that each may leave its labels. */
async function sendAllKinds(gateway: TestGateway): Promise<void> {
  const body = {
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    name: 'Casa Olivo',
    source: 'opentable',
    details: { covers: 4 },
  };
  const headers = { 'idempotency-key': randomUUID() };
  const created = await gateway.request('/v1/quotes', { body, headers });
  assert.equal(created.status, 201);
  const path = created.headers.get('location') as string;
  for (const replay of [body, { ...body, name: 'another' }]) {
    await gateway.request('/v1/quotes', { body: replay, headers });
  }
  await gateway.request('/v1/bookings', { body: { ...body, member_id: randomUUID() }, headers });
  for (const one of [path, `/v1/quotes/${randomUUID()}`, `/v1/members?email=x@example.com`, '/v1/healthz']) {
    await gateway.request(one);
    await gateway.request(`/nowhere${one}`);
    await gateway.request(one, { method: 'OPTIONS' });
  }
  await gateway.request(path, { method: 'DELETE', headers: { 'idempotency-key': randomUUID() } });
  await gateway.request('/v1/quotes/%zz');
  for (const method of ['PROPFIND', 'MKCOL', 'QUERY']) await sendRaw(gateway.url, method);
  for (let i = 0; i < 5; i += 1) {
    const as = { apiKey: `hgk_${randomUUID()}`, apiSecret: randomUUID() };
    await gateway.request('/v1/quotes', { as });
  }
  await gateway.request('/v1/quotes', { as: null });
  for (let i = 0; i < 45; i += 1) await gateway.request(`/v1/quotes?limit=${i}&no=${randomUUID()}`);
}

/** `fetch` knows no such methods. */
async function sendRaw(url: string, method: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const request = httpRequest(`${url}/v1/quotes`, { method }, (response) => {
      response.resume().once('end', resolve);
    });
    request.once('error', reject).end();
  });
}

const routes = new Set(['none', ...documentedRoutes().map(({ path }) => path)]);
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', '_OTHER']);
const resources = [member, quote, booking];
const fields = new Set(resources.flatMap((resource) => Object.keys(resource.fields)));

/** Labels whose values are a set that the code declares; all others have words of ours, never anything with digits. */
const known: Record<string, (value: string) => boolean> = {
  le: (value) => value === '+Inf' || !Number.isNaN(Number(value)),
  http_route: (value) => routes.has(value),
  http_request_method: (value) => methods.has(value),
  http_response_status_code: (value) => /^[1-5]\d\d$/.test(value),
  field: (value) => fields.has(value),
  // Ours, or a method of the Booking Server API.
  operation: (value) => /^([a-z]+|([A-Z][a-z]+)+)$/.test(value),
  object: (value) => /^([A-Z][a-z]+)+(__c)?$/.test(value),
};

function isKnown(label: string, value: string): boolean {
  return known[label]?.(value) ?? /^[a-z]+([_-][a-z]+)*$/.test(value);
}
