import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';
import { startPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const postgres = await startPostgres();
let proxy: TcpProxy | undefined;
let gateway: TestGateway;
let partner: Credentials;
before(async () => {
  proxy = postgres && (await startTcpProxy(postgres.url));
  gateway = await startGateway(proxy && { DATABASE_URL: proxy.url });
  partner = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
});
after(async () => {
  await gateway.stop();
  await proxy?.close();
  await postgres?.stop();
});

async function usage(query = '', as = partner) {
  const response = await gateway.request(`/v1/consumer/usage${query}`, { as });
  assert.equal(response.status, 200, await response.clone().text());
  return (
    (await response.json()) as {
      data: { day: string; requests: Record<string, number>; crm_calls: number }[];
    }
  ).data;
}

const today = () => new Date().toISOString().slice(0, 10);

/** Of all days: one may end meanwhile. */
function sumOf(days: Awaited<ReturnType<typeof usage>>, kind: '2xx' | '4xx' | '5xx'): number {
  return days.reduce((sum, { requests }) => sum + (requests[kind] ?? 0), 0);
}

test('a consumer sees its own requests by class, and the calls that were made for them', async () => {
  const start = await usage();
  const firstDay = start[0]?.day;
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

  const days = await usage();
  assert.deepEqual(
    days.map(({ day }) => day),
    [...new Set([firstDay, days.at(-1)?.day])],
  );
  assert.ok([firstDay, today()].includes(String(days.at(-1)?.day)));
  // The first look at the usage, and three lists. Credentials that are wrong count to nobody.
  assert.equal(sumOf(days, '2xx'), sumOf(start, '2xx') + 4);
  assert.equal(sumOf(days, '4xx'), sumOf(start, '4xx') + 1);
  assert.equal(sumOf(days, '5xx'), 1);
  const calls = days.reduce((sum, { crm_calls }) => sum + crm_calls, 0);
  assert.ok(calls >= 4, `${calls} calls`);

  const path = `/v1/admin/consumers/${partner.id}/usage`;
  const answer = await gateway.request(path, { as: gateway.admin });
  const seen = ((await answer.json()) as { data: typeof days }).data;
  assert.deepEqual([sumOf(seen, '4xx'), sumOf(seen, '5xx')], [sumOf(days, '4xx'), 1]);
  assert.ok(sumOf(seen, '2xx') >= sumOf(days, '2xx'));
  assert.equal((await gateway.request(path, { as: partner })).status, 403);
  const unknown = await gateway.request('/v1/admin/consumers/con_none/usage', { as: gateway.admin });
  assert.equal(unknown.status, 404);

  const own = await usage('', gateway.admin);
  assert.ok(own.every(({ crm_calls }) => crm_calls === 0));
  assert.deepEqual(await usage(`?to=${new Date(Date.now() - 2 * 86_400_000).toISOString()}`), []);
});

test('a database that does not answer is said to be unavailable', {
  skip: !postgres && 'no PostgreSQL',
}, async () => {
  const hung = proxy?.holdRequests('');
  const paths = ['/v1/consumer/usage', `/v1/admin/consumers/${partner.id}/usage`, '/v1/admin/crm-usage'];
  // The first waits for it, and the others are refused without waiting.
  for (const path of paths) {
    const problem = await assertProblem(
      await gateway.request(path, { as: gateway.admin }),
      503,
      'store_unavailable',
    );
    assert.equal(problem.retry_after, 1);
  }
  hung?.release();
});
