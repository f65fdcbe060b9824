import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';

interface Report {
  data: {
    consumer_id: string | null;
    consumer_name: string | null;
    operation: string | null;
    day: string | null;
    calls: number;
    requests: number;
  }[];
  total: number;
}

let gateway: TestGateway;
let one: Credentials;
let other: Credentials;

before(async () => {
  gateway = await startGateway({
    CHANGES_POLL_SECONDS: '0.5',
    CHANGES_MINIMUM_SECONDS: '0.1',
  });
  const all = { resource: 'quotes', actions: ['read', 'write', 'delete'] } as const;
  one = await gateway.newConsumer(all as never);
  other = await gateway.newConsumer(all as never);
});
after(() => gateway.stop());

async function report(query = ''): Promise<Report> {
  const response = await gateway.request(`/v1/admin/crm-usage${query}`, { as: gateway.admin });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Report;
}

const callsOf = ({ data }: Report, id: string) => data.find((row) => row.consumer_id === id)?.calls ?? 0;
const requestsOf = ({ data }: Report, id: string) =>
  data.find((row) => row.consumer_id === id)?.requests ?? 0;

/** What the org has counted. */
async function used(): Promise<number> {
  return ((await gateway.org.counters()) as { metered: number }).metered;
}

test('every metered call is charged to those whose requests shared it, and the sums are the org’s own', async () => {
  const quote = {
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    name: 'a',
    source: 'b',
    details: {},
  };
  await gateway.org.arm({
    match: { path: 'query' },
    effect: { kind: 'error', status: 503, errorCode: 'SERVER_UNAVAILABLE', message: 'later' },
    times: 3,
  });
  // A page of what stands before the org: no call.
  await gateway.org.arm({ match: { path: 'query' }, effect: { kind: 'down' }, times: 2 });
  await gateway.org.arm({ match: { operation: 'create' }, effect: { kind: 'loseAnswer' } });
  const writes = Array.from({ length: 12 }, async (_, n) => {
    const as = n % 3 === 0 ? one : other;
    const headers = { 'idempotency-key': randomUUID() };
    const make = () => gateway.request('/v1/quotes', { as, body: { ...quote, name: `n${n}` }, headers });
    let made = await make();
    // All three failures may meet the same call.
    for (; made.status === 503; made = await make()) await sleep(100);
    assert.equal(made.status, 201, await made.clone().text());
    const { id } = (await made.json()) as { id: string };
    await gateway.request(`/v1/quotes/${id}`, { as });
    await gateway.request('/v1/quotes?limit=2', { as });
  });
  await Promise.all(writes);

  // Polls go on, and the org counts a call when it comes, the gateway when it has ended.
  const found = await eventually(async () => {
    const before = await used();
    const now = await report();
    assert.equal(before, await used());
    assert.ok(Math.abs(now.total - before) < 0.01, `${now.total}, the org has ${before}`);
    return now;
  });
  const sum = found.data.reduce((all, { calls }) => all + calls, 0);
  assert.ok(Math.abs(sum - found.total) < 0.01);
  assert.ok(callsOf(found, one.id) > 4 && callsOf(found, other.id) > 8 && callsOf(found, 'service') > 0);
  // Each of four and of eight wrote, read and listed.
  assert.ok(requestsOf(found, one.id) >= 12 && requestsOf(found, other.id) >= 24);
  assert.equal(found.data.find(({ consumer_id }) => consumer_id === 'service')?.consumer_name, 'service');
  assert.ok(found.data.every(({ operation, day }) => operation === null && day === null));
});

test('a call that two share is charged to both', async () => {
  const [before, ids] = [await report(), [randomUUID(), randomUUID(), randomUUID()]];
  const firstId = randomUUID();
  const hold = await gateway.org.arm({ match: { recordKey: firstId }, effect: { kind: 'hold' }, times: 1 });
  const first = gateway.request(`/v1/quotes/${firstId}`, { as: one });
  await hold.hit();
  const shared = ids.map((id, n) => gateway.request(`/v1/quotes/${id}`, { as: n === 0 ? one : other }));
  // The call of these is the next one: it is sent when the first is answered.
  await hold.release();
  await Promise.all([first, ...shared]);
  const found = await report();
  const spent = (id: string) => callsOf(found, id) - callsOf(before, id);
  assert.ok(spent(one.id) + spent(other.id) <= 4);
  assert.equal(requestsOf(found, one.id) - requestsOf(before, one.id), 2);
  assert.equal(requestsOf(found, other.id) - requestsOf(before, other.id), 2);
});

test('is added up by operation and by day, within a period', async () => {
  const [consumers, operations, days] = [
    await report(),
    await report('?by=operation'),
    await report('?by=day'),
  ];
  assert.ok(operations.data.some(({ operation }) => operation === 'create'));
  assert.ok(operations.data.some(({ operation }) => operation === 'changes'));
  assert.ok(operations.data.every(({ consumer_id, day }) => consumer_id === null && day === null));
  assert.match(String(days.data.at(-1)?.day), /^\d{4}-\d\d-\d\d$/);
  for (const { total } of [operations, days]) assert.ok(total >= consumers.total);
  assert.deepEqual(await report('?from=2100-01-01T00:00:00Z'), { data: [], total: 0 });
  assert.deepEqual(await report('?to=2020-01-01T00:00:00%2B02:00'), { data: [], total: 0 });
  for (const odd of ['0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z'])
    for (const name of ['from', 'to']) await report(`?${name}=${encodeURIComponent(odd)}`);
  const { status } = await gateway.request('/v1/admin/crm-usage?by=hour', { as: gateway.admin });
  assert.equal(status, 400);
  assert.equal((await gateway.request('/v1/admin/crm-usage', { as: one })).status, 403);
});

test('without a budget nothing is said to be used up', async () => {
  const response = await gateway.request('/v1/admin/activity', { as: gateway.admin });
  assert.equal(((await response.json()) as { budget_exhausted_at: unknown }).budget_exhausted_at, null);
  const metrics = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
  assert.match(metrics, /handoff_crm_budget_exhausted_seconds \+Inf/);
});
