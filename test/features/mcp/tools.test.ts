import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import type { Route, Tool } from '../../../src/api/route.ts';
import { documentedRoutes } from '../../../src/app/routes.ts';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { offerFor, tripFor } from '../../support/handoffs.ts';
import { callTool } from '../../support/mcp.ts';

const tools = documentedRoutes().filter((route): route is Route & { tool: Tool } => route.tool !== undefined);
const all = ['read', 'write', 'delete'];
const everything = ['members', 'quotes', 'bookings'].map((resource) => ({ resource, actions: all }));

interface Sent {
  /** By the name in the path. */
  path?: Record<string, string>;
  query?: Record<string, string>;
  body?: object;
}

describe('each tool is its route', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '60' });
  let one: string;
  before(async () => {
    const { structuredContent } = await callTool(
      gateway.url,
      gateway.console,
      'hand_off',
      offerFor(gateway.org.memberId),
    );
    one = String(structuredContent['external_id']);
  });

  const make = async (permissions: object[], more: object = {}): Promise<Credentials> => {
    const body = { name: `made ${randomUUID()}`, permissions, ...more };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    assert.equal(made.status, 201, await made.clone().text());
    return (await made.json()) as Credentials;
  };
  /** What a request to the route is answered: its status, and its body without what is new each time. */
  const sendToRoute = async (
    { method, path, request }: Route,
    as: Credentials,
    { path: names = {}, query, body }: Sent,
  ) => {
    const target = path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(names[name] ?? '-'));
    const response = await gateway.request(
      query ? `${target}?${new URLSearchParams(query).toString()}` : target,
      {
        ...{ method, as, headers: { 'idempotency-key': randomUUID() } },
        ...(request.body && { body: body ?? {} }),
      },
    );
    const text = await response.text();
    return { isError: response.status >= 400, ...comparable(text === '' ? '{"done":true}' : text) };
  };
  const sendToTool = async (
    { tool }: Route & { tool: Tool },
    as: Credentials,
    { path, query, body }: Sent,
  ) => {
    const { isError, structuredContent } = await callTool(gateway.url, as, tool.name, {
      ...path,
      ...query,
      ...body,
    });
    return { isError, ...comparable(JSON.stringify(structuredContent)) };
  };
  const comparable = (text: string) => {
    const {
      request_id: _,
      retry_after: __,
      next_cursor: ___,
      detail: ____,
      errors,
      ...body
    } = JSON.parse(text) as Record<string, unknown>;
    // The sentences are of tools and arguments, or of requests.
    const faults = errors as { message: string }[] | undefined;
    return { ...body, errors: faults?.map(({ message: _____, ...place }) => place) };
  };
  const attemptsOf = async ({ id }: Credentials, wanted: number) => {
    return eventually(async () => {
      const response = await gateway.request(`/v1/admin/auth-attempts?consumer_id=${id}`, {
        as: gateway.admin,
      });
      const { data } = (await response.json()) as { data: Record<string, unknown>[] };
      assert.ok(data.length >= wanted, `${data.length} of ${wanted} attempts`);
      return data.map(({ endpoint, result, status, address, api_key }) => [
        endpoint,
        result,
        status,
        address,
        api_key,
      ]);
    });
  };
  /** Something that the route takes as far as it is a matter of form: of a record that there is not. */
  const formed = ({ path, request }: Route): Sent => {
    const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => [name, randomUUID()]);
    const bodies: Record<string, object> = {
      '/api/v1/handoff': offerFor(gateway.org.memberId),
      '/api/v1/handoffs': tripFor(gateway.org.memberId),
      '/api/v1/handoffs/check': tripFor(gateway.org.memberId),
      '/v1/handoffs/:externalId/reject': { reason: 'too dear' },
      '/v1/quotes/:id': { name: 'x' },
      '/v1/bookings/:id': { name: 'x' },
      '/v1/reservations': reservation(),
    };
    return {
      path: Object.fromEntries(names),
      ...(path.endsWith('availability') && { query: table }),
      ...(request.body && { body: bodies[path] ?? {} }),
    };
  };
  const table = {
    merchant_id: 'casa-olivo-7',
    service_id: 'table',
    start_at: '2020-01-01T19:00:00Z',
    party_size: '4',
  };
  const reservation = () => ({
    ...{ trip_id: randomUUID(), member_id: randomUUID(), name: 'x' },
    dining: {
      ...table,
      party_size: 4,
      guest: { given_name: 'a', family_name: 'b', email: 'a@example.com', phone: '+12025550143' },
    },
  });

  test('there are twenty-two', () => assert.equal(tools.length, 22));

  for (const route of tools) {
    const { tool, method, path, permission } = route;

    test(`${tool.name}: the same permission, and the attempt is its route's`, async () => {
      const stranger = await make([{ resource: 'webhooks', actions: ['read'] }]);
      const sent = formed(route);
      const refused = await sendToTool(route, stranger, sent);
      assert.deepEqual(refused, await sendToRoute(route, stranger, sent));
      const isOpen = 'anyCredentials' in permission;
      assert.equal(refused['code' as never], isOpen ? undefined : 'permission_denied');
      const expected = isOpen ? ['accepted', 200] : ['permission_denied', 403];
      const attempt = [`${method} ${path}`, ...expected, '127.0.0.1', stranger.apiKey];
      assert.deepEqual(await attemptsOf(stranger, 2), [attempt, attempt]);
    });

    test(`${tool.name}: the same problems`, async () => {
      const bound = await make(
        everything.map((given) => ({ ...given, ...(given.resource !== 'members' && { records: 'own' }) })),
      );
      const wrong: Sent[] = [
        formed(route),
        { ...formed(route), path: {} },
        { path: { id: 'x', externalId: '../x' } },
        route.request.body
          ? { ...formed(route), body: { nobody: 1 } }
          : { ...formed(route), query: { nobody: '1' } },
        // A record of another consumer.
        {
          ...formed(route),
          path: Object.fromEntries(Object.keys(formed(route).path ?? {}).map((name) => [name, one])),
        },
      ];
      for (const sent of wrong) {
        // The names in other paths are not names of this route's arguments.
        const names = Object.entries(sent.path ?? {}).filter(([name]) => path.includes(`:${name}`));
        const own = { ...sent, path: Object.fromEntries(names) };
        const [byTool, byRoute] = [await sendToTool(route, bound, own), await sendToRoute(route, bound, own)];
        if (byRoute.isError) assert.deepEqual(byTool, byRoute, JSON.stringify(own));
        else assert.equal(byTool.isError, false, JSON.stringify([own, byTool]));
      }
    });

    test(`${tool.name}: the same limit`, async () => {
      const limited = await make(everything, { rateLimitPerMinute: 1 });
      const first = await sendToTool(route, limited, formed(route));
      assert.notEqual(first['code' as never], 'rate_limited');
      const second = await sendToTool(route, limited, formed(route));
      assert.equal(second['code' as never], 'rate_limited');
      assert.deepEqual(second, await sendToRoute(route, limited, formed(route)));
    });
  }
});
