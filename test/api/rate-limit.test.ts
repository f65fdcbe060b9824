import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import type { PermissionAction } from '../../src/identity/consumers/consumer.ts';
import { networkOf } from '../../src/platform/base/networks.ts';
import { eventually } from '../support/eventually.ts';
import {
  type Credentials,
  type RequestOptions,
  startGateway,
  type TestGateway,
  useGateway,
} from '../support/gateway.ts';
import { assertProblem } from '../support/problems.ts';
import { useRedis } from '../support/redis.ts';
import { firstWebhookSecret, memberEvent, signedRequest, webhookPath } from '../support/webhooks.ts';

const redis = await useRedis();

describe('the limit for each consumer', () => {
  const gateway = useGateway({ RATE_LIMIT_PER_MINUTE: '6' });

  const list = (as: { apiKey: string; apiSecret: string }) => gateway.request('/v1/quotes?limit=1', { as });
  /** A consumer that has sent two requests (`newConsumer` sends the first), in a minute that is not about to end. */
  const newShop = async (...actions: PermissionAction[]): Promise<Credentials> => {
    const shop = await gateway.newConsumer({ resource: 'quotes', actions });
    const { headers } = await list(shop);
    const reset = Number(/t=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1]);
    return reset > 10 ? shop : newShop(...actions);
  };

  test('is in every answer, and answers 429 with Retry-After once it is passed', async () => {
    const shop = await newShop('read');
    for (let remaining = 3; remaining >= 0; remaining--) {
      const response = await list(shop);
      assert.equal(response.status, 200);
      assert.equal(response.headers.get('ratelimit-policy'), '"requests";q=6;w=60');
      const [, left, reset] =
        /^"requests";r=(\d+);t=(\d+)$/.exec(response.headers.get('ratelimit') ?? '') ?? [];
      assert.equal(Number(left), remaining);
      assert.ok(Number(reset) >= 1 && Number(reset) <= 60);
    }
    const refused = await list(shop);
    assert.match(refused.headers.get('ratelimit') ?? '', /^"requests";r=0;t=\d+$/);
    assert.equal(refused.headers.get('ratelimit-policy'), '"requests";q=6;w=60');
    assert.equal(refused.headers.get('cache-control'), 'no-store');
    const retryAfter = Number(refused.headers.get('retry-after'));
    const problem = await assertProblem(refused, 429, 'rate_limited');
    assert.equal(problem.retry_after, retryAfter);
    assert.ok(retryAfter >= 1 && retryAfter <= 60);
    const other = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    assert.equal((await list(other)).status, 200);
  });

  test('comes after credentials and permission, and before headers and body', async () => {
    const shop = await newShop('read', 'write');
    for (let i = 0; i < 4; i++) await list(shop);
    const send = (path: string, options: object = {}) => gateway.request(path, { as: shop, ...options });
    await assertProblem(await send('/v1/members'), 403, 'permission_denied');
    await assertProblem(
      await send('/v1/quotes', { as: { ...shop, apiSecret: 'wrong' } }),
      401,
      'invalid_credentials',
    );
    // No key, another content type, no JSON: the limit is checked before all of them.
    await assertProblem(await send('/v1/quotes', { method: 'POST' }), 429, 'rate_limited');
    const text = { body: 'a', headers: { 'content-type': 'text/plain' } };
    await assertProblem(await send('/v1/quotes', text), 429, 'rate_limited');
    await assertProblem(await send('/v1/quotes?unknown=1'), 429, 'rate_limited');
    // Where no credentials are needed it is checked at once.
    for (const path of ['/nothing', '/v1/%zz', '/v1/healthz', '/v1/docs'])
      await assertProblem(await send(path), 429, 'rate_limited');
    await assertProblem(await send('/v1/quotes', { method: 'PUT' }), 429, 'rate_limited');
    await assertProblem(await send('/v1/quotes', { method: 'OPTIONS' }), 429, 'rate_limited');
    assert.equal((await gateway.request('/v1/healthz', { as: null })).status, 200);
  });

  test('comes, on the hand-off, after the body has shown which permission is needed', async () => {
    const shop = await newShop('read', 'write');
    for (let i = 0; i < 4; i++) await list(shop);
    const handOff = (body: object | string) => gateway.request('/api/v1/handoff', { as: shop, body });
    await assertProblem(await handOff('{'), 400, 'malformed_json');
    await assertProblem(await handOff({ type: 'trip' }), 400, 'invalid_request', '#/type');
    await assertProblem(await handOff({ type: 'booking' }), 403, 'permission_denied');
    await assertProblem(await handOff({ type: 'quote' }), 429, 'rate_limited');
  });
});

describe('the limit for failed authentications', () => {
  const gateway = useGateway({ RATE_LIMIT_FAILED_PER_MINUTE: '3', TRUST_PROXIES: '127.0.0.1' });

  const attempt = (address: string, as: { apiKey: string; apiSecret: string } | null = null) =>
    gateway.request('/v1/quotes?limit=1', { as, headers: { 'x-forwarded-for': address } });

  test('answers 429 instead of 401 from one address, and never refuses valid credentials', async () => {
    for (let i = 0; i < 3; i++) {
      const response = await attempt('198.51.100.1', { ...gateway.console, apiSecret: `wrong-${i}` });
      assert.equal(response.headers.get('ratelimit'), null);
      await assertProblem(response, 401, 'invalid_credentials');
    }
    const wrong = { ...gateway.console, apiSecret: 'wrong' };
    const response = await attempt('198.51.100.1', wrong);
    assert.match(response.headers.get('retry-after') ?? '', /^\d+$/);
    assert.match(response.headers.get('ratelimit') ?? '', /^"failed-authentication";r=0;t=\d+$/);
    assert.equal(response.headers.get('ratelimit-policy'), '"failed-authentication";q=3;w=60');
    await assertProblem(response, 429, 'rate_limited');
    assert.equal((await attempt('198.51.100.1', gateway.console)).status, 200);
    await assertProblem(await attempt('198.51.100.2', wrong), 401, 'invalid_credentials');
    // Without any credentials none can be guessed.
    await assertProblem(await attempt('198.51.100.1'), 401, 'invalid_credentials');
  });

  test('counts them on every path, and answers 429 where none are needed too', async () => {
    const headers = { 'x-forwarded-for': '198.51.100.5' };
    const ask = async (path: string, method: string, as: Credentials | null) =>
      (await gateway.request(path, { method, as, headers })).status;
    const wrong = { ...gateway.console, apiSecret: 'wrong' };
    assert.equal(await ask('/v1/healthz', 'GET', wrong), 200);
    assert.equal(await ask('/nothing', 'GET', wrong), 404);
    assert.equal(await ask('/v1/quotes', 'PUT', wrong), 405);
    for (const [path, method] of [
      ['/v1/healthz', 'GET'],
      ['/v1/docs', 'GET'],
      ['/nothing', 'GET'],
      ['/v1/quotes', 'PUT'],
      ['/v1/quotes', 'OPTIONS'],
      ['/v1/quotes', 'GET'],
    ] as const) {
      assert.equal(await ask(path, method, wrong), 429, path);
    }
    assert.equal(await ask('/v1/healthz', 'GET', gateway.console), 200);
    assert.equal(await ask('/v1/healthz', 'GET', null), 200);
  });

  test('counts right credentials from an address that is not theirs, and answers 403 all the same', async () => {
    const limits = { allowedAddresses: ['192.0.2.0/24'] };
    const made = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: { name: 'x', permissions: [{ resource: 'quotes', actions: ['read'] }], ...limits },
    });
    const shop = (await made.json()) as Credentials;
    for (let i = 0; i < 5; i++)
      await assertProblem(await attempt('198.51.100.9', shop), 403, 'address_not_allowed');
    const wrong = { ...shop, apiSecret: 'wrong' };
    await assertProblem(await attempt('198.51.100.9', wrong), 429, 'rate_limited');
    const list = async () => {
      const path = `/v1/admin/auth-attempts?consumer_id=${shop.id}`;
      const answer = await gateway.request(path, { as: gateway.admin });
      return ((await answer.json()) as { data: { count: number }[] }).data;
    };
    await eventually(async () => assert.ok((await list()).reduce((sum, { count }) => sum + count, 0) >= 6));
    assert.deepEqual((await list()).map(({ count }) => count).toSorted(), [1, 1, 1, 1, 2]);
  });

  test('counts a network of IPv6 as one address', async () => {
    const wrong = { ...gateway.console, apiSecret: 'wrong' };
    for (let i = 0; i < 3; i++) assert.equal((await attempt(`2001:db8:1:2::${i}`, wrong)).status, 401);
    assert.equal((await attempt('2001:db8:1:2:ffff::1', wrong)).status, 429);
    assert.equal((await attempt('2001:db8:1:3::1', wrong)).status, 401);
  });

  test('distinguishes networks, however their addresses are written', () => {
    for (const [address, network] of [
      ['192.0.2.1', '192.0.2.1'],
      ['::ffff:192.0.2.1', '192.0.2.1'],
      ['::ffff:c000:201', '192.0.2.1'],
      ['::1', '0:0:0:0'],
      ['::', '0:0:0:0'],
      ['2001:DB8::1', '2001:db8:0:0'],
      ['2001:0db8:0:0:5::', '2001:db8:0:0'],
      ['1:2:3:4:5:6:7:8', '1:2:3:4'],
      ['64:ff9b::192.0.2.1', '64:ff9b:0:0'],
      ['fe80::1%eth0', 'fe80:0:0:0'],
      ['unknown', 'unknown'],
    ] as const) {
      assert.equal(networkOf(address), network);
    }
    assert.equal(networkOf('x'.repeat(5000)).length, 64);
  });
});

describe('the limit for requests without credentials', () => {
  const gateway = useGateway({ RATE_LIMIT_PUBLIC_PER_MINUTE: '3', TRUST_PROXIES: '127.0.0.1' });

  let addresses = 0;
  /** One whose minute is not about to end: each address has a minute of its own. */
  const newAddress = (): { 'x-forwarded-for': string } => {
    addresses += 1;
    const address = `192.0.2.${addresses}`;
    const elapsedMs = (Date.now() - (crc32(address) % 60_000)) % 60_000;
    return elapsedMs > 50_000 ? newAddress() : { 'x-forwarded-for': address };
  };
  const ask = (path: string, options: RequestOptions = {}) => gateway.request(path, { as: null, ...options });

  for (const [what, path, options, status] of [
    ['health', '/v1/healthz', {}, 200],
    ['documentation', '/v1/docs', {}, 200],
    ['HEAD', '/v1/healthz', { method: 'HEAD' }, 200],
    ['OPTIONS', '/v1/quotes', { method: 'OPTIONS' }, 204],
    ['unknown paths', '/nothing', {}, 404],
    ['unknown methods', '/v1/quotes', { method: 'PUT' }, 405],
    ['missing credentials', '/v1/quotes', {}, 401],
    ['unsigned webhooks', webhookPath, { body: {} }, 401],
    ['webhooks that are no JSON', webhookPath, { method: 'POST' }, 401],
    ['webhooks that are too large', webhookPath, { body: 'x'.repeat(70_000) }, 413],
    ['query parameters that nobody knows', '/v1/docs?x=1', {}, 400],
  ] as const) {
    test(`answers 429 to ${what} from one address, and goes on with others`, async () => {
      const headers = newAddress();
      for (let i = 0; i < 3; i++) {
        const response = await ask(path, { ...options, headers });
        assert.equal(response.status, status);
        assert.equal(response.headers.get('ratelimit'), null);
      }
      const refused = await ask(path, { ...options, headers });
      assert.equal(refused.status, 429);
      assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
      assert.match(refused.headers.get('ratelimit') ?? '', /^"public";r=0;t=\d+$/);
      assert.equal(refused.headers.get('ratelimit-policy'), '"public";q=3;w=60');
      if (what !== 'HEAD') await assertProblem(refused, 429, 'rate_limited');
      assert.equal((await ask(path, { ...options, headers: newAddress() })).status, status);
    });
  }

  test('counts a path that is none by the address of the connection', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await ask('/v1/%zz')).status);
    assert.deepEqual(statuses, [400, 400, 400, 429, 429]);
  });

  test('never refuses valid credentials or a right signature, on public paths neither', async () => {
    const headers = newAddress();
    for (let i = 0; i < 5; i++) await ask('/v1/healthz', { headers });
    const as = gateway.console;
    for (const [path, status] of [
      ['/v1/quotes', 200],
      ['/v1/admin/consumers', 403],
      ['/v1/quotes/x', 400],
      ['/v1/healthz', 200],
      ['/nothing', 404],
    ] as const) {
      assert.equal((await ask(path, { as, headers })).status, status, path);
    }
    assert.equal((await ask('/v1/quotes', { as, method: 'PUT', headers })).status, 405);
    // Wrong ones have a limit of their own.
    const wrong = { ...as, apiSecret: 'wrong' };
    assert.equal((await ask('/v1/healthz', { as: wrong, headers })).status, 200);
    assert.equal((await ask('/v1/quotes', { as: wrong, headers })).status, 401);
    const secret = await firstWebhookSecret(gateway);
    const webhook = signedRequest(secret, memberEvent(gateway.org.memberId), { headers });
    assert.equal((await gateway.request(webhookPath, webhook)).status, 202);
    assert.equal((await fetch(`${gateway.operationsUrl}/metrics`)).status, 200);
  });

  test('counts no request of somebody who is known', async () => {
    const headers = newAddress();
    for (let i = 0; i < 5; i++) {
      assert.equal((await ask('/v1/quotes/x', { as: gateway.console, headers })).status, 400);
    }
    for (let i = 0; i < 5; i++) {
      assert.equal((await ask('/v1/healthz', { as: gateway.console, headers })).status, 200);
      assert.equal((await ask('/nothing', { as: gateway.console, headers })).status, 404);
    }
    assert.equal((await ask('/v1/healthz', { headers })).status, 200);
  });
});

describe('limits that are off, and addresses that nobody vouches for', () => {
  test('0 turns a limit off, and its headers', async (t) => {
    const gateway = await startGateway({
      RATE_LIMIT_PER_MINUTE: '0',
      RATE_LIMIT_FAILED_PER_MINUTE: '0',
      RATE_LIMIT_PUBLIC_PER_MINUTE: '0',
    });
    t.after(async () => {
      await gateway.stop();
    });
    const response = await gateway.request('/v1/quotes?limit=1');
    assert.equal(response.headers.get('ratelimit'), null);
    assert.equal(response.headers.get('ratelimit-policy'), null);
    assert.equal((await gateway.request('/v1/quotes', { as: null })).status, 401);
  });

  test('X-Forwarded-For counts from trusted proxies only', async (t) => {
    const gateway = await startGateway({ RATE_LIMIT_PUBLIC_PER_MINUTE: '2' });
    t.after(async () => {
      await gateway.stop();
    });
    const statuses: number[] = [];
    for (const address of ['198.51.100.1', '198.51.100.2', '198.51.100.3']) {
      const headers = { 'x-forwarded-for': address };
      statuses.push((await gateway.request('/v1/quotes', { as: null, headers })).status);
    }
    assert.deepEqual(statuses, [401, 401, 429]);
  });
});

test('replicas share a limit through Redis', { skip: !redis && 'no redis-server' }, async (t) => {
  const env = { REDIS_URL: redis?.url, RATE_LIMIT_PER_MINUTE: '100' };
  const here = await startGateway(env);
  const there = await startGateway({ ...env, SECRETS_DIR: `${here.dataDir}/secrets` });
  t.after(async () => {
    await there.stop();
    await here.stop();
  });
  const remaining = async (gateway: TestGateway) => {
    const response = await gateway.request('/v1/quotes?limit=1', { as: here.console });
    return Number(/r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]);
  };
  for (let i = 0; i < 10; i++) await remaining(here);
  // There, one request shows 99 at first, and less than 90 once the replicas have shared their counts.
  await eventually(async () => assert.ok((await remaining(there)) <= 85), { everyMs: 300 });
});
