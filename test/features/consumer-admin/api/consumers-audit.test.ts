import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { addressOf } from '../../../../src/api/pipeline/rate-limit.ts';
import { userAgentOf } from '../../../../src/api/pipeline/request-head.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, startGateway, useGateway } from '../../../support/gateway.ts';
import { type PostgresDatabase, startPostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';

interface Entry {
  consumer_id: string | null;
  endpoint: string;
  result: string;
  timestamp: string;
  request_id: string;
  address: string | null;
  user_agent: string | null;
  api_key: string | null;
  person: string | null;
  status: number | null;
  count: number;
}

interface Page {
  data: Entry[];
  next_cursor: string | null;
  has_more: boolean;
}

describe('GET /v1/admin/auth-attempts', () => {
  const gateway = useGateway();
  let shop: Credentials;

  before(async () => {
    shop = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
  });

  const path = '/v1/admin/auth-attempts';
  const page = async (query = ''): Promise<Page> => {
    const response = await gateway.request(`${path}?${query}`, { as: gateway.admin });
    assert.equal(response.status, 200, query);
    return (await response.json()) as Page;
  };
  /** Asks until the attempt is there: it is recorded when the answer is out. */
  const entryOf = async (requestId: string): Promise<Entry> => {
    return eventually(
      async () => {
        const found = (await page('limit=200')).data.find(({ request_id }) => request_id === requestId);
        assert.ok(found, `no attempt by request ${requestId}`);
        return found;
      },
      { everyMs: 10 },
    );
  };

  test('has every attempt, with how it ended and whose it was', async () => {
    const read = await gateway.request(`/v1/admin/consumers/${shop.id}`, { as: gateway.admin });
    const { name: shopName } = (await read.json()) as { name: string };
    const cases: [string, { apiKey: string; apiSecret: string } | null, string, string | null, string][] = [
      ['accepted', shop, '/v1/quotes?limit=1', shop.id, 'GET /v1/quotes'],
      ['missing', null, `/v1/quotes/${randomUUID()}`, null, 'GET /v1/quotes/:id'],
      ['unknown_key', { apiKey: 'nobody', apiSecret: 'x' }, '/v1/quotes', null, 'GET /v1/quotes'],
      ['wrong_secret', { ...shop, apiSecret: 'x' }, '/v1/quotes', shop.id, 'GET /v1/quotes'],
      ['permission_denied', shop, '/v1/members', shop.id, 'GET /v1/members'],
    ];
    for (const [result, as, target, consumerId, endpoint] of cases) {
      const id = `audit-${result}`;
      const headers = { 'x-request-id': id, 'user-agent': 'shop/1.0 '.repeat(30) };
      const { status } = await gateway.request(target, { as, headers });
      const { timestamp, ...entry } = await entryOf(id);
      assert.deepEqual(entry, {
        consumer_name: consumerId === null ? null : shopName,
        ...{ consumer_id: consumerId, endpoint, result, request_id: id, count: 1, status },
        mode: 'live',
        address: '127.0.0.1',
        user_agent: headers['user-agent'].slice(0, 255),
        api_key: as === null ? null : as.apiKey,
        person: null,
      });
      assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.equal(
        (await page(`result=${result}&limit=200`)).data.every((each) => each.result === result),
        true,
      );
    }
    const ofShop = (await page(`consumer_id=${shop.id}&result=wrong_secret`)).data;
    assert.deepEqual(
      ofShop.map(({ request_id }) => request_id),
      ['audit-wrong_secret'],
    );
  });

  test('keeps no more of a long header in memory than it shows', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const used = () => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const header = () => Buffer.alloc(16_000, String(Math.random())).toString('latin1');
    const before = used();
    const kept = Array.from({ length: 2000 }, () => [
      userAgentOf({ 'user-agent': header() }),
      addressOf({ ip: header().slice(-20), headers: { 'x-forwarded-for': header() } }),
    ]);
    assert.ok(used() - before < 8_000_000, `${used() - before} bytes for ${kept.length}`);
  });

  test('finds attempts by address and by key, and keeps no secret that stands in the wrong header', async () => {
    const swapped = { apiKey: shop.apiSecret, apiSecret: shop.apiKey };
    await gateway.request('/v1/quotes', { as: swapped, headers: { 'x-request-id': 'swapped' } });
    const { api_key } = await entryOf('swapped');
    assert.equal(api_key, `${shop.apiSecret.slice(0, 8)}…`);
    const ofKey = (await page(`api_key=${shop.apiKey}`)).data;
    assert.ok(ofKey.length > 0 && ofKey.every((entry) => entry.api_key === shop.apiKey));
    const ofRequest = (await page('request_id=swapped')).data;
    assert.deepEqual(
      ofRequest.map((entry) => entry.request_id),
      ['swapped'],
    );
    for (const address of ['127.0.0.1', '::ffff:127.0.0.1']) {
      assert.ok((await page(`address=${address}&limit=1`)).data.length === 1);
    }
    assert.deepEqual((await page('address=192.0.2.77')).data, []);
    assert.doesNotMatch(JSON.stringify(gateway.logLines), new RegExp(shop.apiSecret));
  });

  test('shows when each key was used last, on consumers and credentials, on every replica', async () => {
    const show = async (): Promise<{
      lastUsedAt: string | null;
      credentials: { lastUsedAt: string | null }[];
    }> =>
      (await (
        await gateway.request(`/v1/admin/consumers/${other.id}`, { as: gateway.admin })
      ).json()) as never;
    const other = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const untilUsed = async (since: string) => {
      // It was used to learn that the gateway knows it, perhaps in the minute before.
      await eventually(async () => assert.ok(((await show()).lastUsedAt ?? '') >= since), { everyMs: 10 });
      return show();
    };
    await gateway.request('/v1/quotes', { as: { ...other, apiSecret: 'wrong' } });
    const minuteNow = () => `${new Date().toISOString().slice(0, 16)}:00.000Z`;
    let minute: string;
    // Within one minute: what is shown is the last one.
    do {
      minute = minuteNow();
      await gateway.request('/v1/quotes?limit=1', { as: other });
    } while (minuteNow() !== minute);
    const { lastUsedAt, credentials } = await untilUsed(minute);
    assert.equal(lastUsedAt, minute);
    assert.equal(credentials[0]?.lastUsedAt, lastUsedAt);
    await gateway.request(`/v1/admin/consumers/${other.id}/rotate`, { as: gateway.admin, method: 'POST' });
    const rotated = await show();
    assert.deepEqual(
      [rotated.lastUsedAt, ...rotated.credentials.map((pair) => pair.lastUsedAt)],
      [lastUsedAt, null, lastUsedAt],
    );
    const listed = await (
      await gateway.request('/v1/admin/consumers?limit=200', { as: gateway.admin })
    ).json();
    const found = (listed as { data: { id: string; lastUsedAt: string }[] }).data.find(
      ({ id }) => id === other.id,
    );
    assert.equal(found?.lastUsedAt, lastUsedAt);
  });

  test('pages from newest to oldest and misses and repeats none while others are recorded', async () => {
    const since = new Date().toISOString();
    const ids = Array.from({ length: 25 }, (_, i) => `page-${i}`);
    await Promise.all(
      ids.map((id) => gateway.request('/v1/quotes', { as: null, headers: { 'x-request-id': id } })),
    );
    for (const id of ids) await entryOf(id);
    const seen: Entry[] = [];
    const filters = `result=missing&since=${since}&limit=4`;
    for (let cursor = ''; ; ) {
      const { data, next_cursor, has_more } = await page(`${filters}${cursor}`);
      assert.equal(has_more, next_cursor !== null);
      seen.push(...data);
      await gateway.request('/v1/quotes', { as: null });
      if (next_cursor === null) break;
      assert.equal(data.length, 4);
      cursor = `&cursor=${next_cursor}`;
    }
    assert.deepEqual(seen.map(({ request_id }) => request_id).sort(), [...ids].sort());
    const times = seen.map(({ timestamp }) => timestamp);
    assert.deepEqual(times, times.toSorted().toReversed());
  });

  test('refuses a cursor of other filters, what is no filter, and who may not read consumers', async () => {
    const { next_cursor } = await page('limit=1');
    const get = (query: string) => gateway.request(`${path}?${query}`, { as: gateway.admin });
    const other = await get(`limit=1&result=accepted&cursor=${next_cursor}`);
    await assertProblem(other, 400, 'invalid_cursor', 'cursor');
    await assertProblem(await get('result=fine'), 400, 'invalid_request', 'result');
    await assertProblem(await get('since=yesterday'), 400, 'invalid_request', 'since');
    await assertProblem(await get('since=2026-12-31T23:59:60Z'), 400, 'invalid_request', 'since');
    await assertProblem(await get('address=host'), 400, 'invalid_request', 'address');
    await assertProblem(await get('limit=201'), 400, 'invalid_request', 'limit');
    await assertProblem(await get('until=2026'), 400, 'invalid_request', 'until');
    assert.deepEqual((await page('since=9999-12-31T23:59:59Z')).data, []);
    await assertProblem(await gateway.request(path), 403, 'permission_denied');
  });
});

const beyond = 'of an address are one entry for each minute and result';
for (const [limit, setting, result, other] of [
  ['limit of failed authentications', 'RATE_LIMIT_FAILED_PER_MINUTE', 'wrong_secret', 'missing'],
  ['public limit', 'RATE_LIMIT_PUBLIC_PER_MINUTE', 'missing', 'wrong_secret'],
] as const)
  test(`attempts beyond the ${limit} ${beyond}`, async (t) => {
    const gateway = await startGateway({ [setting]: '5', TRUST_PROXIES: '127.0.0.1' });
    t.after(async () => {
      await gateway.stop();
    });
    const send = async (path: string, address: string, what: string) => {
      const as = what === 'missing' ? null : { ...gateway.console, apiSecret: 'wrong' };
      return (await gateway.request(path, { as, headers: { 'x-forwarded-for': address } })).status;
    };
    const statuses = new Map<number, number>();
    for (let i = 0; i < 40; i++) {
      // Another address of the same network each time.
      const status = await send('/v1/quotes', `2001:db8::${i.toString(16)}`, result);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    const refused = statuses.get(429) ?? 0;
    assert.ok(refused >= 30);
    assert.equal(await send('/v1/bookings', '2001:db8::1', other), 401);
    assert.equal(await send('/v1/quotes', '192.0.2.1', result), 401);
    const pageOf = async (what: string) => {
      const query = `/v1/admin/auth-attempts?result=${what}&limit=200`;
      const response = await gateway.request(query, { as: gateway.admin });
      return ((await response.json()) as Page).data;
    };
    const sum = (counted: Entry[]) => counted.reduce((all, { count }) => all + count, 0);
    const entries = await eventually(async () => {
      const found = await pageOf(result);
      assert.equal(sum(found), 41);
      return found;
    });
    // Two only where a minute has ended meanwhile, and then one of them may be of one attempt.
    const sums = entries.length - (41 - refused);
    assert.ok(sums === 1 || sums === 2, String(sums));
    const counted = entries.filter(({ count }) => count > 1);
    assert.ok(counted.length > 0 && counted.length <= sums, String(counted.length));
    assert.equal(counted[0]?.endpoint, 'GET /v1/quotes');
    await eventually(async () =>
      assert.deepEqual(
        (await pageOf(other)).map(({ endpoint, count }) => [endpoint, count]),
        [['GET /v1/bookings', 1]],
      ),
    );
  });

const postgres = await startPostgres();
after(() => postgres?.stop());

test('a database that is unavailable costs no request and loses no attempt', {
  skip: !postgres && 'no PostgreSQL',
}, async (t) => {
  const proxy = await startTcpProxy((postgres as PostgresDatabase).url);
  const gateway = await startGateway({ DATABASE_URL: proxy.url });
  t.after(async () => {
    await gateway.stop();
    await proxy.close();
  });
  const attempts = async () => {
    const response = await gateway.request('/v1/admin/auth-attempts?result=missing', { as: gateway.admin });
    if (response.status !== 200) await assertProblem(response, 503, 'store_unavailable');
    return response.status === 200 ? ((await response.json()) as Page).data.length : undefined;
  };
  const send = async () => assert.equal((await gateway.request('/v1/quotes', { as: null })).status, 401);
  await send();
  await eventually(async () => assert.equal(await attempts(), 1));
  await proxy.cut();
  for (let i = 0; i < 700; i++) await send();
  assert.equal((await gateway.request('/v1/quotes?limit=1')).status, 200);
  assert.equal(await attempts(), undefined);
  await proxy.restore();
  const all = async () => {
    const first = await gateway.request('/v1/admin/auth-attempts?result=missing&limit=200', {
      as: gateway.admin,
    });
    if (first.status !== 200) return 0;
    let { data, next_cursor } = (await first.json()) as Page;
    let count = data.length;
    while (next_cursor !== null) {
      const query = `result=missing&limit=200&cursor=${next_cursor}`;
      const next = await gateway.request(`/v1/admin/auth-attempts?${query}`, { as: gateway.admin });
      ({ data, next_cursor } = (await next.json()) as Page);
      count += data.length;
    }
    return count;
  };
  await eventually(async () => assert.equal(await all(), 701), { everyMs: 100 });
});
