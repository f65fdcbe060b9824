import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';

let gateway: TestGateway;
let partner: Credentials;
before(async () => {
  gateway = await startGateway();
  partner = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
});
after(() => gateway.stop());

async function usage(query = '', as = partner) {
  const response = await gateway.request(`/v1/consumer/usage${query}`, { as });
  assert.equal(response.status, 200, await response.clone().text());
  return (
    (await response.json()) as {
      data: { day: string; requests: Record<string, number>; crm_calls: number }[];
    }
  ).data;
}

test('a consumer sees its own requests by class, and the calls that were made for them', async () => {
  const start = (await usage())[0]?.requests ?? { '2xx': 0, '4xx': 0, '5xx': 0 };
  for (const _ of [1, 2, 3]) await (await gateway.request('/v1/quotes', { as: partner })).text();
  await (await gateway.request('/v1/bookings', { as: partner })).text();
  await (
    await gateway.request('/v1/quotes', { as: { ...partner, apiSecret: gateway.admin.apiSecret } })
  ).text();
  await gateway.org.arm({
    match: { path: 'query' },
    effect: { kind: 'error', status: 400, errorCode: 'INVALID_FIELD', message: 'x' },
    times: 1,
  });
  assert.equal((await gateway.request('/v1/quotes', { as: partner })).status, 502);

  const [day, ...others] = await usage();
  assert.deepEqual(others, []);
  assert.equal(day?.day, new Date().toISOString().slice(0, 10));
  // The first look at the usage, and three lists. Credentials that are wrong count to nobody.
  assert.equal(day.requests['2xx'], (start['2xx'] ?? 0) + 4);
  assert.equal(day.requests['4xx'], (start['4xx'] ?? 0) + 1);
  assert.equal(day.requests['5xx'], 1);
  assert.ok(day.crm_calls >= 4, `${day.crm_calls} calls`);

  const own = await usage('', gateway.admin);
  assert.ok(own.every(({ crm_calls }) => crm_calls === 0));
  assert.deepEqual(await usage(`?to=${new Date(Date.now() - 86_400_000).toISOString()}`), []);
});
