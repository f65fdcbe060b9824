import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';

interface Entry {
  consumer_id: string;
  result: string;
  status: number;
  endpoint: string;
  count: number;
}

const postgres = await startPostgres();
const redis = await startRedis();
after(() => Promise.all([postgres?.stop(), redis?.stop()]));

describe('refused attempts of one consumer, on two replicas', {
  skip: !(postgres && redis) && 'no PostgreSQL or Redis',
}, () => {
  let here: TestGateway;
  let there: TestGateway;
  before(async () => {
    const env = {
      ...{ DATABASE_URL: postgres?.url ?? '', REDIS_URL: redis?.url ?? '', TRUST_PROXIES: '127.0.0.1' },
      RATE_LIMIT_FAILED_PER_MINUTE: '0',
    };
    here = await startGateway(env);
    there = await startGateway({ ...env, SECRETS_DIR: `${here.dataDir}/secrets` });
  });
  after(async () => {
    await there.stop();
    await here.stop();
  });

  const make = async (change: object) => {
    const body = { name: 'shop', permissions: [{ resource: 'quotes', actions: ['read'] }], ...change };
    const response = await here.request('/v1/admin/consumers', { as: here.admin, body });
    assert.equal(response.status, 201);
    return (await response.json()) as Credentials;
  };
  const entriesOf = async ({ id }: Credentials) => {
    const query = `/v1/admin/auth-attempts?consumer_id=${id}&limit=200`;
    const response = await here.request(query, { as: here.admin });
    return ((await response.json()) as { data: Entry[] }).data;
  };
  const sumOf = (entries: Entry[]) => entries.reduce((sum, { count }) => sum + count, 0);
  /** Both write theirs within a second. */
  const allEntriesOf = async (shop: Credentials, expected: number) => {
    return eventually(async () => {
      const entries = await entriesOf(shop);
      assert.ok(sumOf(entries) >= expected, `${sumOf(entries)} of ${expected}`);
      return entries;
    });
  };
  /** Sends in batches, as fast as answers come. */
  const sendMany = async (count: number, send: (n: number) => Promise<Response>) => {
    const statuses = new Map<number, number>();
    for (let n = 0; n < count; n += 20) {
      const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => send(n + i)));
      for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    return Object.fromEntries(statuses);
  };
  const assertFolded = (entries: Entry[], total: number, mostRows: number) => {
    assert.equal(sumOf(entries), total);
    assert.ok(entries.length <= mostRows, `${entries.length} rows`);
    const sums = entries.filter(({ count }) => count > 1);
    assert.ok(sums.length > 0 && sums.length <= 2, JSON.stringify(sums));
    return sums;
  };

  test('beyond 60 are one row for each minute and result, with their count', async () => {
    const shop = await make({});
    const statuses = await sendMany(1000, () => here.request('/v1/bookings', { as: shop }));
    assert.deepEqual(statuses, { 403: 1000 });
    const entries = await allEntriesOf(shop, 1000);
    // More than one where a minute has ended meanwhile.
    for (const { result, status, endpoint } of assertFolded(entries, 1000, 62))
      assert.deepEqual([result, status, endpoint], ['permission_denied', 403, 'GET /v1/bookings']);
    assert.ok(entries.filter(({ count }) => count === 1).length >= 60);
  });

  test('so are those over the rate limit, and what is accepted stays as it is', async () => {
    const shop = await make({ rateLimitPerMinute: 20 });
    const statuses = await sendMany(1000, () => here.request('/v1/quotes?limit=1', { as: shop }));
    assert.ok((statuses[429] ?? 0) >= 970, JSON.stringify(statuses));
    const entries = await allEntriesOf(shop, 1000);
    assertFolded(entries, 1000, 62 + (statuses[200] ?? 0));
    assert.equal(entries.filter(({ status }) => status === 200).length, statuses[200]);
  });

  test('so are those from addresses that are not allowed, however many', async () => {
    const shop = await make({ allowedAddresses: ['192.0.2.1'] });
    const headers = (n: number) => ({ 'x-forwarded-for': `198.51.${n >> 8}.${n & 255}` });
    await sendMany(300, (n) => here.request('/v1/quotes', { as: shop, headers: headers(n) }));
    const [sum] = assertFolded(await allEntriesOf(shop, 300), 300, 62);
    assert.equal(sum?.result, 'address');
  });

  test('so are those from addresses that are not allowed, where no credentials are needed', async () => {
    const elsewhere = await make({ allowedAddresses: ['192.0.2.1'] });
    const headers = (n: number) => ({ 'x-forwarded-for': `198.51.${n >> 8}.${n & 255}` });
    await sendMany(200, (n) => here.request('/v1/healthz', { as: elsewhere, headers: headers(n) }));
    assertFolded(await allEntriesOf(elsewhere, 200), 200, 62);
  });

  test('of both replicas are in one row, and none is lost when they stop', async () => {
    const shop = await make({});
    await eventually(async () =>
      assert.equal((await there.request('/v1/bookings', { as: shop })).status, 403),
    );
    const before = sumOf(await entriesOf(shop));
    await sendMany(400, (n) => (n % 2 === 0 ? here : there).request('/v1/bookings', { as: shop }));
    await there.stop();
    const entries = await allEntriesOf(shop, 401);
    assert.ok(before <= 1);
    // Each replica counts for itself until the counts are shared.
    const known = entries.filter(({ result }) => result === 'permission_denied');
    assertFolded(known, 401, 122);
    there = await startGateway({ SECRETS_DIR: `${here.dataDir}/secrets` });
  });
});
