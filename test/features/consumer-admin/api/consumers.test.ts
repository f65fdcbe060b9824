import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

interface View {
  id: string;
  name: string;
  apiKey: string;
  apiSecret: string;
  permissions: object[];
  createdAt: string;
  updatedAt: string;
  certificateFingerprints: string[];
  credentials: object[];
}

const path = '/v1/admin/consumers';
const permissions = [{ resource: 'quotes', actions: ['read'] }];
const members = [
  'id',
  'name',
  'mode',
  'apiKey',
  'permissions',
  'createdAt',
  'updatedAt',
  'rotatedAt',
  'expiresAt',
  'certificateFingerprints',
  'enabled',
  'validUntil',
  'rateLimitPerMinute',
  'allowedAddresses',
  'publicKeys',
  'crmShare',
  'certificateNames',
  'allowance',
  'people',
  'lastUsedAt',
  'credentials',
];

describe('/v1/admin/consumers', () => {
  const gateway = useGateway();

  const send = (method: string, target: string, body?: object, headers: Record<string, string> = {}) =>
    gateway.request(target, { method, as: gateway.admin, headers, ...(body && { body }) });
  const create = async (change: object = {}): Promise<View> => {
    const response = await send('POST', path, { name: 'Partner', permissions, ...change });
    const text = await response.text();
    assert.equal(response.status, 201, text);
    return JSON.parse(text) as View;
  };
  const show = async (id: string) => (await (await send('GET', `${path}/${id}`)).json()) as View;

  test('creates a consumer that can call at once, and shows its secret this one time', async () => {
    const response = await send('POST', path, { name: 'Partner ✓', permissions });
    assert.equal(response.status, 201);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const { apiSecret, ...created } = (await response.json()) as View;
    assert.equal(response.headers.get('location'), `${path}/${created.id}`);
    assert.deepEqual(Object.keys(created), members);
    assert.match(apiSecret, /^hgs_/);
    assert.deepEqual(
      [created.name, created.permissions],
      ['Partner ✓', [{ ...permissions[0], records: 'all' }]],
    );
    const used = await gateway.request('/v1/quotes?limit=1', { as: { ...created, apiSecret } });
    assert.equal(used.status, 200);
    const shown = await send('GET', `${path}/${created.id}`);
    assert.equal(shown.headers.get('cache-control'), 'no-store');
    const { lastUsedAt, ...rest } = (await shown.json()) as { lastUsedAt: string; credentials: object[] };
    assert.match(lastUsedAt, /:00\.000Z$/);
    const credentials = created.credentials.map((pair) => ({ ...pair, lastUsedAt }));
    assert.deepEqual({ ...rest, lastUsedAt }, { ...created, lastUsedAt, credentials });
  });

  test('changes the name, the permissions and the certificates, each as a whole', async () => {
    const { apiSecret, ...created } = await create();
    const renamed = await send('PATCH', `${path}/${created.id}`, { name: 'Another' });
    assert.equal(renamed.status, 200);
    const body = (await renamed.json()) as View;
    assert.deepEqual({ ...body, updatedAt: '' }, { ...created, name: 'Another', updatedAt: '' });
    assert.ok(body.updatedAt >= created.updatedAt);

    const as = { apiKey: created.apiKey, apiSecret };
    assert.equal((await gateway.request('/v1/members?limit=1', { as })).status, 403);
    const wider = [{ resource: 'members', actions: ['read'] }];
    await send('PATCH', `${path}/${created.id}`, { permissions: wider });
    assert.equal((await gateway.request('/v1/members?limit=1', { as })).status, 200);
    assert.equal((await gateway.request('/v1/quotes?limit=1', { as })).status, 403);

    const hex = 'ab'.repeat(32);
    const written = [hex, hex.toUpperCase(), hex.match(/../g)?.join(':') ?? '', 'CD'.repeat(32)];
    await send('PATCH', `${path}/${created.id}`, { certificateFingerprints: written });
    assert.deepEqual((await show(created.id)).certificateFingerprints, [hex, 'cd'.repeat(32)]);
    await send('PATCH', `${path}/${created.id}`, { certificateFingerprints: [] });
    assert.deepEqual((await show(created.id)).certificateFingerprints, []);
  });

  test('revokes at once, whatever comes with the request', async () => {
    const { id, apiKey, apiSecret } = await create();
    const gone = await send('DELETE', `${path}/${id}`, undefined, { 'content-type': 'text/plain' });
    assert.equal(gone.status, 204);
    assert.equal(await gone.text(), '');
    const used = await gateway.request('/v1/quotes?limit=1', { as: { apiKey, apiSecret } });
    await assertProblem(used, 401, 'invalid_credentials');
    for (const method of ['GET', 'DELETE']) {
      await assertProblem(await send(method, `${path}/${id}`), 404, 'not_found');
    }
    await assertProblem(await send('PATCH', `${path}/${id}`, { name: 'a' }), 404, 'not_found');
  });

  test('honours entity tags: 304 for what is the same, 412 for what has changed', async () => {
    const { id } = await create();
    const target = `${path}/${id}`;
    const tag = (await send('GET', target)).headers.get('etag') ?? '';
    assert.match(tag, /^"[\w-]+"$/);
    assert.equal((await send('GET', target, undefined, { 'if-none-match': tag })).status, 304);
    const changed = await send('PATCH', target, { name: 'b' }, { 'if-match': tag });
    assert.equal(changed.status, 200);
    const newTag = changed.headers.get('etag') ?? '';
    assert.equal(
      (await send('GET', target, undefined, { 'if-none-match': tag })).headers.get('etag'),
      newTag,
    );
    await assertProblem(
      await send('PATCH', target, { name: 'c' }, { 'if-match': tag }),
      412,
      'precondition_failed',
    );
    await assertProblem(
      await send('DELETE', target, undefined, { 'if-match': tag }),
      412,
      'precondition_failed',
    );
    assert.equal((await send('DELETE', target, undefined, { 'if-match': newTag })).status, 204);
  });

  test('lists everybody once, newest first, while others are created', async () => {
    const created: string[] = [];
    for (let i = 0; i < 7; i++) created.push((await create({ name: `listed ${i}` })).id);
    const seen: View[] = [];
    for (let cursor = ''; ; ) {
      const response = await send('GET', `${path}?limit=3${cursor}`);
      const page = (await response.json()) as { data: View[]; next_cursor: string | null; has_more: boolean };
      assert.equal(page.has_more, page.next_cursor !== null);
      seen.push(...page.data);
      if (page.next_cursor === null) break;
      assert.equal(page.data.length, 3);
      cursor = `&cursor=${page.next_cursor}`;
      await create({ name: 'created meanwhile' });
    }
    const ids = seen.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.deepEqual(ids.slice(0, 7), created.toReversed());
    assert.ok(ids.includes(gateway.admin.id) && ids.includes(gateway.console.id));
    assert.deepEqual(Object.keys(seen[0] ?? {}), members);
    const text = JSON.stringify(seen);
    assert.doesNotMatch(text, /hgs_|"hash"|pepper/);
    const wrong = await send('GET', `${path}?cursor=AAAA`);
    await assertProblem(wrong, 400, 'invalid_cursor', 'cursor');
  });

  test('finds consumers by a part of the name or the id, by status and by mode, page after page', async () => {
    const make = async (name: string, more: object = {}) => {
      const body = { name, permissions, ...more };
      return (await (await gateway.request(path, { body, as: gateway.admin })).json()) as View;
    };
    const { id } = await make('Alpine Tours East');
    await make('Alpine Tours West', { enabled: false });
    await make('Alpine Tours Past', { validUntil: '2020-01-01T00:00:00Z' });
    await make('Alpine Tours Trial', { mode: 'test' });
    const list = async (query: string) => {
      const response = await gateway.request(`${path}?${query}`, { as: gateway.admin });
      assert.equal(response.status, 200, await response.clone().text());
      return (await response.json()) as { data: View[]; next_cursor: string | null };
    };
    const found = async (query: string) =>
      (await list(query)).data.map(({ name }) => name.split(' ').at(-1)).toSorted();
    assert.deepEqual(await found('q=ALPINE%20tours'), ['East', 'Past', 'Trial', 'West']);
    assert.deepEqual(await found(`q=${id.slice(0, 12)}&status=active`), ['East']);
    assert.deepEqual(await found('q=alpine&status=disabled'), ['West']);
    assert.deepEqual(await found('q=alpine&status=expired'), ['Past']);
    assert.deepEqual(await found('q=alpine&status=active&mode=live'), ['East']);
    assert.deepEqual(await found('q=alpine&mode=test'), ['Trial']);
    assert.deepEqual(await found('q=no%20such'), []);
    const first = await list('q=alpine&limit=3');
    const cursor = encodeURIComponent(first.next_cursor ?? '');
    assert.deepEqual(await found(`q=alpine&limit=3&cursor=${cursor}`), ['East']);
    const foreign = await gateway.request(`${path}?cursor=${cursor}`, { as: gateway.admin });
    await assertProblem(foreign, 400, 'invalid_cursor', 'cursor');
    for (const [parameter, wrong] of Object.entries({ q: '', status: 'revoked', mode: 'x' }))
      await assertProblem(
        await gateway.request(`${path}?${parameter}=${wrong}`, { as: gateway.admin }),
        400,
        'invalid_request',
        parameter,
      );
  });

  test('shows administrators what is used of an allowance', async () => {
    const body = { name: 'Counted', permissions, allowance: { requests: 100, per: 'month' } };
    const made = (await (await gateway.request(path, { body, as: gateway.admin })).json()) as View;
    for (const _ of [1, 2]) await (await gateway.request('/v1/quotes', { as: made })).text();
    const read = await gateway.request(`${path}/${made.id}`, { as: gateway.admin });
    const { allowance } = (await read.json()) as { allowance: Record<string, unknown> };
    assert.deepEqual({ ...allowance, resets_at: 0 }, { requests: 100, per: 'month', used: 2, resets_at: 0 });
    assert.ok(Date.parse(String(allowance['resets_at'])) > Date.now());
  });

  test('refuses what is no consumer, naming each fault, and makes none', async () => {
    const count = async () =>
      ((await (await send('GET', `${path}?limit=200`)).json()) as { data: [] }).data.length;
    const before = await count();
    for (const [body, ...pointers] of [
      [{ permissions }, '#/name'],
      [{ name: 'a' }, '#/permissions'],
      [{ name: '', permissions }, '#/name'],
      [{ name: ' ', permissions }, '#/name'],
      [{ name: 'x'.repeat(101), permissions }, '#/name'],
      [{ name: 'a\u001b[2J', permissions }, '#/name'],
      [{ name: 'a', permissions: [] }, '#/permissions'],
      [{ name: 'a', permissions: [{ resource: 'trips', actions: ['read'] }] }, '#/permissions/0/resource'],
      [{ name: 'a', permissions: [{ resource: 'quotes', actions: ['fly'] }] }, '#/permissions/0/actions/0'],
      [{ name: 'a', permissions: [{ resource: 'quotes', actions: [] }] }, '#/permissions/0/actions'],
      [{ name: 'a', permissions: [...permissions, ...permissions] }, '#/permissions/1/resource'],
      [{ name: 'a', permissions: [{ ...permissions[0], records: 'some' }] }, '#/permissions/0/records'],
      ...(['members', 'webhooks', 'consumers'] as const).map((resource) => {
        const own = { resource, actions: ['read'], records: 'own' };
        return [{ name: 'a', permissions: [...permissions, own] }, '#/permissions/1/records'] as const;
      }),
      [{ name: 'a', permissions, enabled: 'no' }, '#/enabled'],
      [{ name: 'a', permissions, validUntil: 'tomorrow' }, '#/validUntil'],
      [{ name: 'a', permissions, validUntil: '2027-06-30T23:59:60Z' }, '#/validUntil'],
      [{ name: 'a', permissions, rateLimitPerMinute: 0 }, '#/rateLimitPerMinute'],
      [{ name: 'a', permissions, rateLimitPerMinute: 1.5 }, '#/rateLimitPerMinute'],
      [{ name: 'a', permissions, allowedAddresses: Array(101).fill('::1') }, '#/allowedAddresses'],
      ...[
        '',
        'host',
        '1.2.3',
        '10.0.0.0/33',
        '::/129',
        '10.0.0.0/',
        '10.0.0.0/-1',
        'fe80::1%eth0',
        '::1/1/1',
      ].map((wrong) => {
        const allowedAddresses = ['192.0.2.0/24', '2001:db8::1', wrong];
        return [{ name: 'a', permissions, allowedAddresses }, '#/allowedAddresses/2'] as const;
      }),
      [{ name: 'a', permissions, id: 'con_mine' }, '#/id'],
      [{ name: 'a', permissions, apiSecret: 'mine' }, '#/apiSecret'],
      [{ name: 'a', permissions, certificateFingerprints: ['ab'] }, '#/certificateFingerprints/0'],
    ] as const) {
      await assertProblem(await send('POST', path, body), 400, 'invalid_request', ...pointers);
    }
    assert.equal(await count(), before);
    const { id } = await create();
    await assertProblem(await send('PATCH', `${path}/${id}`, {}), 400, 'invalid_request', '#');
    const pair = await send('PATCH', `${path}/${id}`, { apiKey: 'mine' });
    await assertProblem(pair, 400, 'invalid_request', '#/apiKey');
  });
});
