import assert from 'node:assert/strict';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

const path = '/v1/admin/consumers';
const readQuotes = { resource: 'quotes', actions: ['read'] };

describe('what a key may do, on two replicas', () => {
  let here: TestGateway;
  let there: TestGateway;

  before(async () => {
    const env = { TRUST_PROXIES: '127.0.0.1' };
    here = await startGateway(env);
    there = await startGateway({ ...env, SECRETS_DIR: `${here.dataDir}/secrets` });
  });
  after(async () => {
    await there.stop();
    await here.stop();
  });

  const send = (method: string, target: string, body?: object) =>
    here.request(target, { method, as: here.admin, ...(body && { body }) });
  const create = async (change: object = {}): Promise<Credentials> => {
    const response = await send('POST', path, { name: 'Partner', permissions: [readQuotes], ...change });
    const text = await response.text();
    assert.equal(response.status, 201, text);
    return JSON.parse(text) as Credentials;
  };
  const change = async ({ id }: Credentials, body: object) => {
    const response = await send('PATCH', `${path}/${id}`, body);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as Record<string, unknown>;
  };
  const statusAt = async (gateway: TestGateway, as: Credentials, from = '192.0.2.1') =>
    (await gateway.request('/v1/quotes?limit=1', { as, headers: { 'x-forwarded-for': from } })).status;
  /** At once here; there once the other replica has seen the change. */
  const becomes = async (as: Credentials, status: number, from?: string) => {
    assert.equal(await statusAt(here, as, from), status);
    await eventually(async () => assert.equal(await statusAt(there, as, from), status));
  };
  /** An attempt is recorded once its answer is out. */
  const isRecorded = async ({ id }: Credentials, result: string) => {
    const query = `consumer_id=${id}&result=${result}&limit=1`;
    const list = async () =>
      (await (await send('GET', `/v1/admin/auth-attempts?${query}`)).json()) as { data: [] };
    await eventually(async () => assert.notEqual((await list()).data.length, 0));
  };

  test('shows what is not set as its default, and what is set as it is', async () => {
    const { id } = await create();
    const shown = (await (await send('GET', `${path}/${id}`)).json()) as Record<string, unknown>;
    const names = ['enabled', 'validUntil', 'rateLimitPerMinute', 'allowedAddresses', 'permissions'];
    const defaults = [true, null, null, [], [{ ...readQuotes, records: 'all' }]];
    assert.deepEqual(
      names.map((name) => shown[name]),
      defaults,
    );
    const set = {
      enabled: false,
      validUntil: '2030-01-01T01:00:00+01:00',
      rateLimitPerMinute: 7,
      allowedAddresses: ['192.0.2.0/24', '2001:db8::1', '192.0.2.0/24'],
      permissions: [{ ...readQuotes, records: 'own' }],
    };
    const changed = await change({ id } as Credentials, set);
    assert.deepEqual(
      names.map((name) => changed[name]),
      [false, '2030-01-01T00:00:00.000Z', 7, ['192.0.2.0/24', '2001:db8::1'], set.permissions],
    );
    const {
      enabled: _,
      permissions: __,
      ...none
    } = Object.fromEntries(names.map((name, i) => [name, defaults[i]]));
    const cleared = await change({ id } as Credentials, { ...none, enabled: true });
    assert.deepEqual(
      names.slice(0, 4).map((name) => cleared[name]),
      defaults.slice(0, 4),
    );
    const { apiSecret, ...made } = await create(set);
    assert.ok(apiSecret);
    assert.deepEqual(await (await send('GET', `${path}/${made.id}`)).json(), made);
  });

  test('refuses a disabled consumer on every replica, until it is enabled again', async () => {
    const shop = await create();
    await becomes(shop, 200);
    await change(shop, { enabled: false });
    await becomes(shop, 401);
    await isRecorded(shop, 'disabled');
    await change(shop, { enabled: true });
    await becomes(shop, 200);
  });

  test('refuses a consumer from validUntil on, without a change at that moment', async () => {
    const shop = await create();
    await becomes(shop, 200);
    const end = Date.now() + 3000;
    await change(shop, { validUntil: new Date(end).toISOString() });
    await eventually(async () => assert.equal(await statusAt(here, shop), 401), { everyMs: 50 });
    assert.ok(Date.now() >= end);
    await becomes(shop, 401);
    await isRecorded(shop, 'expired');
    await change(shop, { validUntil: null });
    await becomes(shop, 200);
  });

  test('takes moments at the ends of the calendar, as far as it can read them again', async () => {
    const shop = await create({ validUntil: '9999-12-31T23:59:59Z' });
    const beyond = await send('PATCH', `${path}/${shop.id}`, { validUntil: '9999-12-31T23:59:59-01:00' });
    await assertProblem(beyond, 400, 'invalid_request', '#/validUntil');
    const before = await send('PATCH', `${path}/${shop.id}`, { validUntil: '0000-01-01T00:00:00+01:00' });
    await assertProblem(before, 400, 'invalid_request', '#/validUntil');
    await becomes(shop, 200);
  });

  test('limits a consumer as its own limit says, in place of that of the settings', async () => {
    const shop = await create({ rateLimitPerMinute: 2 });
    const ask = () => here.request('/v1/quotes?limit=1', { as: shop });
    assert.equal((await ask()).headers.get('ratelimit-policy'), '"requests";q=2;w=60');
    assert.equal((await ask()).status, 200);
    const refused = await ask();
    assert.match(refused.headers.get('ratelimit') ?? '', /^"requests";r=0;t=\d+$/);
    await assertProblem(refused, 429, 'rate_limited');
    await change(shop, { rateLimitPerMinute: 4 });
    assert.deepEqual([(await ask()).status, (await ask()).status, (await ask()).status], [200, 200, 429]);
    await change(shop, { rateLimitPerMinute: null });
    assert.equal((await ask()).headers.get('ratelimit-policy'), '"requests";q=6000;w=60');
  });

  test('lets a consumer call from allowed addresses only, whatever their form', async () => {
    const shop = await create({ allowedAddresses: ['192.0.2.16/28', '198.51.100.7', '2001:db8:1::/48'] });
    const allowed = [
      '192.0.2.17',
      '::ffff:192.0.2.31',
      '198.51.100.7',
      '2001:DB8:1:0::9',
      '2001:db8:1::9%eth0',
    ];
    for (const address of allowed) await becomes(shop, 200, address);
    for (const address of ['192.0.2.32', '::ffff:198.51.100.8', '2001:db8:2::9', '::1', 'unknown']) {
      await becomes(shop, 403, address);
      await isRecorded(shop, 'address');
    }
    const options = { as: shop, headers: { 'x-forwarded-for': '203.0.113.1' } };
    const problem = await assertProblem(
      await here.request('/v1/quotes', options),
      403,
      'address_not_allowed',
    );
    assert.doesNotMatch(JSON.stringify(problem), /192\.0|203\.0/);
    // Before permission and body; a wrong secret is still 401.
    await assertProblem(await here.request('/v1/bookings', options), 403, 'address_not_allowed');
    const wrong = { ...options, as: { ...shop, apiSecret: here.admin.apiSecret } };
    await assertProblem(await here.request('/v1/quotes', wrong), 401, 'invalid_credentials');
    await change(shop, { allowedAddresses: [] });
    await becomes(shop, 200, '203.0.113.1');
  });

  test('shows a consumer its own record, whatever its permissions', async () => {
    const { apiSecret, ...made } = await create({
      permissions: [{ resource: 'webhooks', actions: ['read'] }],
    });
    const response = await here.request('/v1/consumer', { as: { ...made, apiSecret } });
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), made);
    const headers = { 'if-none-match': response.headers.get('etag') ?? '' };
    const known = await here.request('/v1/consumer', { as: { ...made, apiSecret }, headers });
    assert.equal(known.status, 304);
    // With an allowance its answer changes with each request.
    await change({ ...made, apiSecret }, { allowance: { requests: 100, per: 'day' } });
    const first = await here.request('/v1/consumer', { as: { ...made, apiSecret } });
    const again = {
      as: { ...made, apiSecret },
      headers: { 'if-none-match': first.headers.get('etag') ?? '' },
    };
    const { allowance } = (await (await here.request('/v1/consumer', again)).json()) as {
      allowance: { used: number };
    };
    assert.equal(allowance.used, 2);
    await assertProblem(await here.request('/v1/consumer', { as: null }), 401, 'invalid_credentials');
  });

  test('keeps the last administrator, also of two that end each other at once on two replicas', async (t) => {
    const gateway = await startGateway();
    const other = await startGateway({ SECRETS_DIR: `${gateway.dataDir}/secrets` });
    t.after(async () => {
      await other.stop();
      await gateway.stop();
    });
    const everything = ['members', 'quotes', 'bookings', 'consumers', 'webhooks'].map((resource) => ({
      resource,
      actions: ['read', 'write', 'delete'],
    }));
    const admin = gateway.admin;
    const end = (at: TestGateway, as: Credentials, id: string, by: object | 'DELETE') =>
      at.request(`${path}/${id}`, {
        as,
        ...(by === 'DELETE' ? { method: by } : { method: 'PATCH', body: by }),
      });
    const ways = [
      'DELETE',
      { enabled: false },
      { validUntil: '2099-01-01T00:00:00Z' },
      { permissions: [{ resource: 'consumers', actions: ['read', 'delete'] }] },
    ] as const;
    for (const way of ways) await assertProblem(await end(gateway, admin, admin.id, way), 409, 'conflict');
    const body = { name: 'second', permissions: everything };
    for (const way of [...ways, ...ways]) {
      const made = await gateway.request(path, { as: admin, body });
      const second = (await made.json()) as Credentials;
      await eventually(async () => assert.equal((await other.request(path, { as: second })).status, 200));
      const outcomes = await Promise.all([
        end(gateway, admin, second.id, way),
        end(other, second, admin.id, { enabled: false }),
      ]);
      const statuses = outcomes.map(({ status }) => status);
      assert.ok(
        statuses.some((status) => status < 300) && statuses.some((status) => status >= 400),
        String(statuses),
      );
      const winner = (statuses[0] ?? 0) < 300 ? admin : second;
      // The one that is left can go on, and cannot end itself.
      await assertProblem(await end(other, winner, winner.id, { enabled: false }), 409, 'conflict');
      if (winner === admin) continue;
      await eventually(async () =>
        assert.equal((await end(other, winner, admin.id, { enabled: true })).status, 200),
      );
      await eventually(async () => assert.equal((await gateway.request(path, { as: admin })).status, 200));
      await end(gateway, admin, second.id, 'DELETE');
    }
  });
});

describe('the ceiling: nobody gives, takes or takes over more than they have', () => {
  const gateway = useGateway();

  const consumers = { resource: 'consumers', actions: ['read', 'write', 'delete'] };
  const make = async (...permissions: object[]) => {
    const body = { name: 'made', permissions };
    const response = await gateway.request(path, { as: gateway.admin, body });
    assert.equal(response.status, 201);
    return (await response.json()) as Credentials;
  };
  const operations = {
    'change of the name': ['PATCH', '', { name: 'other' }],
    disabling: ['PATCH', '', { enabled: false }],
    enabling: ['PATCH', '', { enabled: true }],
    'change of the addresses': ['PATCH', '', { allowedAddresses: ['::1'] }],
    'taking a permission': ['PATCH', '', { permissions: [readQuotes] }],
    rotation: ['POST', '/rotate', {}],
    revocation: ['DELETE', '', undefined],
  } as const;
  const own = { ...readQuotes, records: 'own' };
  const approved = { ...readQuotes, approval: true };
  const write = { resource: 'quotes', actions: ['read', 'write'] };

  for (const [what, has, wanted, missing] of [
    ['another resource', [readQuotes], [{ resource: 'bookings', actions: ['read'] }], 'bookings:read'],
    ['another action', [readQuotes], [write], 'quotes:write'],
    ['all records, with own only', [own], [readQuotes], 'quotes:read'],
    ['no approval, with approval only', [approved], [readQuotes], 'quotes:read'],
    [
      'the right to manage',
      [readQuotes],
      [readQuotes, { resource: 'webhooks', actions: ['write'] }],
      'webhooks:write',
    ],
  ] as const) {
    test(`refuses ${what}, in every operation, and changes nothing`, async () => {
      const [resource, action] = missing.split(':');
      const caller = await make(consumers, ...has);
      const stronger = await make(...wanted);
      const weaker = await make({ ...own, approval: true });
      const before = await (await gateway.request(`${path}/${stronger.id}`, { as: gateway.admin })).json();
      const refused = async (method: string, target: string, body?: object) => {
        const response = await gateway.request(target, { method, as: caller, ...(body && { body }) });
        const { required } = await assertProblem(response, 403, 'permission_denied');
        assert.deepEqual(required, { resource, action });
      };
      for (const [method, suffix, body] of Object.values(operations))
        await refused(method, `${path}/${stronger.id}${suffix}`, body);
      await refused('POST', path, { name: 'new', permissions: wanted });
      await refused('PATCH', `${path}/${weaker.id}`, { permissions: wanted });
      await refused('PATCH', `${path}/${caller.id}`, { permissions: [consumers, ...wanted] });
      assert.deepEqual(
        await (await gateway.request(`${path}/${stronger.id}`, { as: gateway.admin })).json(),
        before,
      );
    });
  }

  test('refuses to take over a consumer that a newer version has given more', async () => {
    const caller = await make(consumers, readQuotes);
    const stronger = await make(readQuotes);
    const file = join(gateway.dataDir, 'secrets', 'consumers', stronger.id);
    const record = JSON.parse(await readFile(file, 'utf8')) as object;
    const further = [{ resource: 'trips', actions: ['read'] }];
    await writeFile(`${file}~draft`, JSON.stringify({ ...record, furtherPermissions: further }));
    await rename(`${file}~draft`, file);
    for (const as of [caller, gateway.admin]) {
      const rotation = await gateway.request(`${path}/${stronger.id}/rotate`, { as, method: 'POST' });
      const { required } = await assertProblem(rotation, 403, 'permission_denied');
      assert.deepEqual(required, { resource: 'trips', action: 'read' });
    }
  });

  test('allows every operation within it', async () => {
    const caller = await make(consumers, readQuotes);
    for (const permissions of [[readQuotes], [own], [approved]]) {
      const target = await make(...permissions);
      for (const [what, [method, suffix, body]] of Object.entries(operations)) {
        const response = await gateway.request(`${path}/${target.id}${suffix}`, {
          method,
          as: caller,
          ...(body && { body }),
        });
        assert.ok(response.ok, `${what}: ${response.status} ${await response.text()}`);
      }
    }
  });
});
