import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { documentedRoutes } from '../../../src/app/routes.ts';
import type { PermissionResource } from '../../../src/identity/consumers/consumer.ts';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { callTool } from '../../support/mcp.ts';
import { newReservation } from '../../support/reservations.ts';
import { handoffFor, makeConsumer, memberId, recordFor, withKey } from './worlds.ts';

const resources: PermissionResource[] = ['members', 'quotes', 'bookings', 'webhooks', 'consumers'];
const permissions = resources.map((resource) => ({
  resource,
  actions: ['read' as const, 'write' as const, 'delete' as const],
}));

/** Without the public ones: they look at no credentials, or show more to any consumer. */
const routes = documentedRoutes().filter(({ permission }) => !('none' in permission));

/** What a side has made, by the name that its path gives it. */
type Made = Record<string, string>;

/** Over all routes: what each side sends never reaches the other, nor a test consumer's the CRM or the partner. */
describe('the line between live and test', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600', CHANGES_MINIMUM_SECONDS: '3600' });
  before(async () => {
    await gateway.org.untilDescribed();
  });

  async function send(as: Credentials, path: string, body?: object, method?: string) {
    const options = { as, ...(body && { body }), ...(method && { method }), headers: withKey() };
    const response = await gateway.request(path, options);
    const isMarked = response.headers.get('handoff-mode') === 'test';
    assert.equal(isMarked, as.apiKey.startsWith('hgkt_'), `${method} ${path}: ${response.status}`);
    return { status: response.status, text: await response.text() };
  }

  /** Something of each kind, which has the mark in all its texts. */
  async function makeAll(as: Credentials, mark: string): Promise<Made> {
    const make = async (path: string, body: object, id: string) => {
      const { status, text } = await send(as, path, body);
      assert.ok(status < 300, `${path}: ${status} ${text}`);
      return String((JSON.parse(text) as Record<string, unknown>)[id]);
    };
    const result = { name: mark, source: mark, details: { mark } };
    const trip = randomUUID();
    const handoff = handoffFor(memberId, { trip_id: trip, result });
    return {
      ...{ trip, owner: as.id },
      quotes: await make('/v1/quotes', recordFor(memberId, result), 'id'),
      bookings: await make('/v1/bookings', recordFor(memberId, result), 'id'),
      handoff: await make('/api/v1/handoff', handoff, 'external_id'),
      reservations: await make('/v1/reservations', { ...newReservation(memberId), name: mark }, 'id'),
      'webhook-endpoints': await make(
        '/v1/webhook-endpoints',
        { url: 'http://127.0.0.1:1999/hook', description: mark },
        'id',
      ),
      consumers: await make(
        '/v1/admin/consumers',
        { name: mark, permissions: permissions.slice(0, 1) },
        'id',
      ),
    };
  }

  /** Every route, with the ids of what one side has made and with its marks as filters, and a body that would do something. */
  function requestsAbout(made: Made, mark: string) {
    const ids = Object.values(made);
    return routes.flatMap((route) => {
      const { method, path, requestExample = {} } = route;
      const params = path.match(/:\w+/g) ?? [];
      const paths = params.length === 0 ? [path] : ids.map((id) => path.replaceAll(/:\w+/g, () => id));
      const example = path.endsWith('reject') ? { reason: 'x' } : requestExample;
      const body = method === 'GET' || route.request.body === undefined ? undefined : bodyFor(path, example);
      return [...paths, ...filtered(route, made, mark)].map((filled) => ({
        ...{ route, method, path: filled, body },
        isOfOne: params.length > 0,
      }));
    });
  }

  /** Lists, as they are asked for what the side has. */
  function filtered({ path, method, request }: (typeof routes)[number], made: Made, mark: string): string[] {
    const { properties = {} }: { properties?: object } = request.query ?? {};
    const names = Object.keys(properties);
    if (method !== 'GET' || path.includes(':')) return [];
    const wanted = { q: mark, trip_id: made['trip'], member_id: memberId, consumer_id: made['owner'] };
    return Object.entries({ ...wanted, actor_id: made['owner'], target_id: made['owner'] }).flatMap(
      ([name, value]) =>
        names.includes(name) && value !== undefined ? [`${path}?${name}=${encodeURIComponent(value)}`] : [],
    );
  }

  /** Every tool, with the same ids and bodies in its arguments. */
  function toolCallsAbout(made: Made, mark: string) {
    return requestsAbout(made, mark).flatMap(({ route, path, body, isOfOne }) => {
      if (!route.tool) return [];
      const { pathname, searchParams } = new URL(path, 'http://localhost');
      const names = route.path.match(/:\w+/g)?.map((name) => name.slice(1)) ?? [];
      const parts = pathname.split('/');
      const ids = names.map((name) => [name, parts[route.path.split('/').indexOf(`:${name}`)]]);
      const given = { ...Object.fromEntries(ids), ...Object.fromEntries(searchParams), ...body };
      return [{ name: route.tool.name, given, isOfOne }];
    });
  }

  function bodyFor(path: string, example: unknown): object {
    if (path === '/api/v1/handoff') return handoffFor(memberId);
    if (path === '/v1/quotes' || path === '/v1/bookings') return recordFor(memberId);
    return path === '/v1/reservations' ? newReservation(memberId) : (example as object);
  }

  const calls = async () => {
    const { metered, rowsWritten, calls: byName } = await gateway.org.counters();
    const partner = (await gateway.diningPartner.control('GET', 'counters')) as { calls: object };
    return { metered, rowsWritten, byName, partner: partner.calls };
  };

  it('has many routes on it', () => {
    assert.ok(routes.length > 40, String(routes.length));
  });

  /** All that one side can send about what the other has made; `skips`: what would end the caller itself. */
  async function tryAll(as: Credentials, made: Made, mark: string, skips: (path: string) => boolean) {
    for (const { method, path, body, isOfOne } of requestsAbout(made, mark)) {
      if (skips(path)) continue;
      const { status, text } = await send(as, path, body, method);
      const what = `${method} ${path}: ${status} ${text}`;
      assert.ok(!text.includes(mark), what);
      assert.ok(status < 500, what);
      if (isOfOne) assert.ok(status === 400 || status === 404, what);
    }
    for (const { name, given, isOfOne } of toolCallsAbout(made, mark)) {
      const { isError, content } = await callTool(gateway.url, as, name, given);
      const text = JSON.stringify(content);
      assert.ok(!text.includes(mark), `${name}: ${text}`);
      if (isOfOne) assert.equal(isError, true, `${name} ${JSON.stringify(given)}: ${text}`);
    }
  }

  /** What is there is there still, and as it was. */
  async function assertWhole(as: Credentials, made: Made, mark: string): Promise<void> {
    for (const [collection, id] of Object.entries(made)) {
      if (collection === 'trip' || collection === 'owner') continue;
      const { status, text } = await send(as, pathOf(collection, id));
      assert.equal(status, 200, collection);
      assert.ok(text.includes(mark), text);
    }
  }

  const pathOf = (collection: string, id: string) =>
    ({ handoff: `/v1/quotes/${id}`, consumers: `/v1/admin/consumers/${id}` })[collection] ??
    `/v1/${collection}/${id}`;

  it('is not crossed by a test consumer, whatever it sends', async () => {
    const as = await makeConsumer(gateway, { permissions });
    const mark = `live ${randomUUID()}`;
    const live = await makeAll(gateway.admin, mark);
    const before = await calls();
    await tryAll(as, live, mark, () => false);
    const own = await makeAll(as, 'test');
    for (const { method, path, body } of requestsAbout(own, 'test')) {
      // Its own keys are needed to the end.
      if (path.includes(as.id)) continue;
      const { status, text } = await send(as, path, body, method);
      assert.ok(!text.includes(mark) && status < 500, `${method} ${path}: ${status} ${text}`);
    }
    assert.deepEqual(await calls(), before);
    await assertWhole(gateway.admin, live, mark);
  });

  it('hides what is of test consumers from live ones', async () => {
    const as = await makeConsumer(gateway, { permissions });
    const mark = `test ${randomUUID()}`;
    const made = await makeAll(as, mark);
    // Administrators see what consumers there are, and what they did.
    await tryAll(gateway.admin, made, mark, (path) => path.startsWith('/v1/admin'));
    await assertWhole(as, made, mark);
  });

  it('is not crossed by another test consumer', async () => {
    const [as, other] = await Promise.all([1, 2].map(() => makeConsumer(gateway, { permissions })));
    assert.ok(as && other);
    const mark = `test ${randomUUID()}`;
    const made = await makeAll(as, mark);
    await tryAll(other, made, mark, (path) => path.startsWith('/v1/admin'));
    await assertWhole(as, made, mark);
  });

  it('keeps what the org lacks from test consumers, and their faults from it', async () => {
    const as = await makeConsumer(gateway);
    const body = recordFor(memberId);
    const calls = async () => Number((await gateway.org.counters())['metered']);
    await gateway.org.change({ missingFields: ['Quote__c.Status__c'] });
    try {
      const live = await send(gateway.console, '/v1/quotes', body);
      assert.equal(live.status, 502, live.text);
      const made = await send(as, '/v1/quotes', body);
      assert.equal(made.status, 201, made.text);
      const { id } = JSON.parse(made.text) as { id: string };
      assert.equal((await send(as, `/v1/quotes/${id}`, { name: 'another' }, 'PATCH')).status, 200);
      const checked = await send(as, '/api/v1/handoff/check', handoffFor(memberId));
      assert.match(checked.text, /"ok":true/);
    } finally {
      await gateway.org.change({ missingFields: [] });
    }
    await eventually(async () => {
      assert.equal((await send(gateway.console, '/v1/quotes', body)).status, 201);
    });
    const before = await calls();
    const spaces = { ...body, details: { text: ' '.repeat(300_000) } };
    assert.equal((await send(as, '/v1/quotes', spaces)).status, 422);
    assert.equal(await calls(), before);
  });
});
