import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, test } from 'node:test';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { assertProblem } from '../support/problems.ts';
import { recordFor } from '../support/records.ts';
import { untilCrmIsBack } from '../support/recovery.ts';

let gateway: TestGateway;
before(async () => {
  gateway = await startGateway({ CRM_MAX_CONCURRENCY: '1', RATE_LIMIT_PER_MINUTE: '0' });
  await gateway.request(`/v1/quotes/${randomUUID()}`);
});
afterEach(() => gateway.org.reset());
after(() => gateway.stop());

const newIds = (count: number) => Array.from({ length: count }, () => randomUUID() as string);
const insert = (ids: string[]) =>
  gateway.org.insert(
    'Quote__c',
    ids.map((id) => ({ External_Id__c: id, Name__c: id, Source__c: 'x', Details__c: '{}' })),
  );
const post = (name: string, key: string = randomUUID()) =>
  gateway.request('/v1/quotes', {
    body: recordFor(gateway.org.memberId, { name }),
    headers: { 'idempotency-key': key },
  });
const metered = async () => (await gateway.org.counters())['metered'] as number;
/** So long that all requests have come before the second call, on a slow machine too. */
const latency = { match: { path: '/services/data/' }, effect: { kind: 'latency', ms: 1000 } };

test('parallel reads share calls to the CRM, and each gets its own record or 404', async () => {
  const known = newIds(60);
  const missing = newIds(20);
  await insert(known);
  await gateway.org.arm(latency);
  const before = await metered();
  const asked = [...known, ...missing, ...known.slice(0, 10)];
  const answers = await Promise.all(asked.map((id) => gateway.request(`/v1/quotes/${id}`)));
  for (const [index, answer] of answers.entries()) {
    const id = asked[index] ?? '';
    assert.equal(answer.status, missing.includes(id) ? 404 : 200);
    if (answer.status === 200) assert.equal(((await answer.json()) as { name: string }).name, id);
  }
  const calls = (await metered()) - before;
  assert.ok(calls <= 10, `${calls} calls for ${asked.length} reads`);
});

test('parallel keyed writes share calls to the CRM, and each answers with its own record', async () => {
  await gateway.org.arm(latency);
  const before = await metered();
  const names = Array.from({ length: 60 }, (_, n) => `quote ${n}`);
  const answers = await Promise.all(names.map((name) => post(name)));
  for (const [index, answer] of answers.entries()) {
    const { name, id } = (await answer.json()) as { name: string; id: string };
    assert.deepEqual([answer.status, name], [201, names[index]]);
    assert.equal(answer.headers.get('location'), `/v1/quotes/${id}`);
  }
  const calls = (await metered()) - before;
  assert.ok(calls <= 12, `${calls} calls for 60 writes`);
  assert.equal((await gateway.org.records('Quote__c')).length, 60);
});

test('a queue that is full answers 503 early, touches no key, and leaves others their share', async () => {
  // Not the description of the object, which the gateway asks for in its own time.
  const match = { operation: 'query', object: 'Booking__c' };
  const hold = await gateway.org.arm({ match, effect: { kind: 'hold' }, times: 1 });
  const first = gateway.request(`/v1/bookings/${randomUUID()}`);
  await hold.hit();
  const refusal = Promise.withResolvers<Response>();
  const flood = newIds(101).map(async (id) => {
    const answer = await gateway.request(`/v1/quotes/${id}`);
    if (answer.status === 503) refusal.resolve(answer);
    return answer.status;
  });
  const refused = await refusal.promise;
  await assertProblem(refused, 503, 'crm_unavailable');
  assert.equal(refused.headers.get('retry-after'), '1');
  const key = randomUUID();
  await assertProblem(await post('refused', key), 503, 'crm_unavailable');
  const other = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
  const served = gateway.request(`/v1/quotes/${randomUUID()}`, { as: other });
  await hold.release();
  assert.equal((await served).status, 404);
  await first;
  assert.equal((await Promise.all(flood)).filter((status) => status === 404).length, 100);
  // Another request under the same key: it was never claimed.
  assert.equal((await post('not refused', key)).status, 201);
});

test('while the CRM is dead requests are answered at once and touch no key, until it is back', async () => {
  const down = await gateway.org.arm({ match: { path: '/services/data/' }, effect: { kind: 'down' } });
  const read = () => gateway.request(`/v1/quotes/${randomUUID()}`);
  const calls = async () => ((await gateway.org.counters())['calls'] as Record<string, number>)['query'] ?? 0;
  for (let before = -1; before < (await calls()); ) {
    before = await calls();
    await assertProblem(await read(), 503, 'crm_unavailable');
  }
  const key = randomUUID();
  const refused = await post('refused', key);
  await assertProblem(refused, 503, 'crm_unavailable');
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  await down.remove();
  await untilCrmIsBack(read);
  assert.equal((await post('not refused', key)).status, 201);
});

test('health shows how much of the daily quota is used', async () => {
  await gateway.request(`/v1/quotes/${randomUUID()}`);
  const { crm } = (await (await gateway.request('/v1/healthz')).json()) as {
    crm: { quota: { used: number; limit: number } };
  };
  assert.equal(crm.quota.limit, 100_000);
  assert.ok(crm.quota.used > 0);
});
