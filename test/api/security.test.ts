import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { defineRoute, isPublic, type Permission, type Route } from '../../src/api/route.ts';
import { documentedRoutes } from '../../src/app/routes.ts';
import {
  type Consumer,
  permissionActions,
  permissionResources,
} from '../../src/identity/consumers/consumer.ts';
import { createConsumers } from '../../src/identity/consumers/consumers.ts';
import type { RequiredPermission } from '../../src/identity/consumers/permissions.ts';
import { commandLine } from '../../src/identity/consumers/record-changes.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/platform/secrets/file.ts';
import { eventually } from '../support/eventually.ts';
import { type Credentials, type RequestOptions, type TestGateway, useGateway } from '../support/gateway.ts';
import { recordLog } from '../support/log.ts';
import { assertProblem } from '../support/problems.ts';
import { openRoute } from './made-up-server.ts';

type Pair = Pick<Credentials, 'apiKey' | 'apiSecret'>;

const routes = documentedRoutes();
const protectedRoutes = routes.filter(({ permission }) => !isPublic(permission));

/** Everything that would be refused later, of each kind: credentials and permission come first, whatever follows. */
const faults: [what: string, options: RequestOptions][] = [
  ['nothing', {}],
  ['a body of another type', { body: '<a/>', headers: { 'content-type': 'application/xml' } }],
  ['what is no JSON', { body: '{' }],
  ['a body that is too large', { body: `"${'x'.repeat(1_048_576)}"` }],
  ['a body that does not fit', { body: { unknown: true } }],
];

/** Requests to a route, with each fault that its method can carry, an unknown parameter and an id that is none. */
function* requestsTo({
  method,
  path,
}: Route): Generator<[what: string, path: string, options: RequestOptions]> {
  const real = path.replaceAll(/:\w+/g, randomUUID());
  for (const [what, options] of faults) {
    if (method !== 'GET' || options.body === undefined) yield [what, real, { ...options, method }];
  }
  yield ['an unknown parameter', `${real}?unknown=1`, { method }];
  yield ['an id that is none', path.replaceAll(/:\w+/g, 'none'), { method }];
}

function wantedBy(permission: Permission): RequiredPermission[] {
  if (isPublic(permission) || 'anyCredentials' in permission) return [];
  return 'anyOf' in permission ? permission.anyOf : [permission];
}

describe('every route', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600' });

  test('is public only if it stands here', () => {
    const open = routes.filter(({ permission }) => isPublic(permission));
    assert.deepEqual(
      open.map(({ method, path }) => `${method} ${path}`),
      [
        'POST /v1/webhooks/crm/members',
        'POST /oauth/token',
        'GET /.well-known/oauth-authorization-server',
        'GET /.well-known/oauth-protected-resource',
        'GET /.well-known/oauth-protected-resource/mcp',
        'GET /oauth/jwks',
        'GET /oauth/authorize',
        'GET /console/sign-in',
        'GET /console/callback',
        'GET /console/session',
        'POST /console/session',
        'POST /console/sign-out',
        'GET /llms.txt',
        'GET /v1/guides',
        'GET /v1/guides/:page',
        'GET /client.tgz',
        'GET /.well-known/api-catalog',
        'GET /v1/healthz',
        'GET /v1/problems/:code',
        'GET /',
        'GET /v1/docs',
        'GET /v1/docs/scalar.js',
        'GET /v1/docs/start.js',
      ],
    );
  });

  test('that the server answers stands in the table: other methods of its paths are refused', async () => {
    const paths = new Set(routes.map(({ path }) => path));
    for (const path of paths) {
      // There where people sign in.
      if (path.startsWith('/console/')) continue;
      const known: string[] = routes.filter((route) => route.path === path).map(({ method }) => method);
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((one) => !known.includes(one))) {
        const response = await gateway.request(path.replaceAll(/:\w+/g, randomUUID()), {
          method,
          as: gateway.admin,
        });
        await assertProblem(response, 405, 'method_not_allowed');
      }
    }
  });

  test('asks for the permission of what its path is about', () => {
    const resources: Record<string, string[]> = {
      '/api/v1/handoff': ['quotes', 'bookings'],
      '/api/v1/handoffs': ['quotes', 'bookings'],
      '/v1/handoffs': ['quotes', 'bookings'],
      '/v1/trips': ['quotes', 'bookings'],
      '/v1/dining': ['bookings'],
      '/v1/members': ['members'],
      '/v1/quotes': ['quotes'],
      '/v1/bookings': ['bookings'],
      '/v1/reservations': ['bookings'],
      '/v1/events': [],
      '/v1/webhook-endpoints': ['webhooks'],
      '/v1/admin': ['consumers'],
      '/v1/consumer': [],
      '/v1/test': [],
      // Each tool asks for the permission of its route.
      '/mcp': [],
    };
    for (const { path, permission } of protectedRoutes) {
      const [, wanted] =
        Object.entries(resources).find(([prefix]) => `${path}/`.startsWith(`${prefix}/`)) ?? [];
      assert.deepEqual([...new Set(wantedBy(permission).map(({ resource }) => resource))], wanted, path);
    }
  });

  test('has an action that fits its method', () => {
    const actions: Record<string, string> = { GET: 'read', POST: 'write', PATCH: 'write', DELETE: 'delete' };
    for (const { method, path, permission } of protectedRoutes) {
      for (const { action } of wantedBy(permission)) {
        // The consumer that made a hand-off may take it back while nobody has approved it.
        const isTakenBack = path === '/v1/handoffs/:externalId' && action === 'write';
        assert.ok(action === actions[method] || isTakenBack, `${method} ${path}`);
      }
    }
  });

  describe('that needs credentials', () => {
    const wrong = new Map<string, Pair | null>();
    before(async () => {
      const { apiKey, apiSecret } = gateway.console;
      const last = (text: string) => text.replace(/.$/, (letter) => (letter === 'a' ? 'b' : 'a'));
      wrong.set('missing', null);
      wrong.set('missing, the secret only', { apiKey, apiSecret: '' });
      wrong.set('unknown_key', { apiKey: last(apiKey), apiSecret });
      wrong.set('wrong_secret', { apiKey, apiSecret: last(apiSecret) });
      wrong.set("wrong_secret, another consumer's", { apiKey, apiSecret: gateway.admin.apiSecret });
      wrong.set('expired', await expiredPair(gateway));
      wrong.set(
        'expired, with its consumer',
        await pairWith(gateway, { validUntil: new Date(0).toISOString() }),
      );
      wrong.set('disabled', await pairWith(gateway, { enabled: false }));
      wrong.set('revoked', await revokedPair(gateway));
    });

    for (const route of protectedRoutes) {
      test(`${route.method} ${route.path} gives one answer for every reason, before all else`, async () => {
        const answers = new Set<string>();
        for (const [reason, as] of wrong) {
          for (const [what, path, options] of requestsTo(route)) {
            const from = gateway.logLines.length;
            const response = await gateway.request(path, { ...options, as });
            const { request_id, ...problem } = await assertProblem(response, 401, 'invalid_credentials');
            answers.add(JSON.stringify([problem, headersOf(response)]));
            const attempt = await loggedAttempt(gateway, from, request_id);
            assert.equal(attempt.result, reason.split(',')[0], `${reason}, with ${what}`);
            assert.equal(attempt.endpoint, `${route.method} ${route.path}`);
          }
        }
        assert.equal(answers.size, 1, [...answers].join('\n'));
      });
    }
  });

  describe('that needs a permission', () => {
    const consumers = new Map<string, Credentials>();
    const consumerWith = async (...permissions: { resource: string; actions: string[] }[]) => {
      const name = JSON.stringify(permissions);
      const known = consumers.get(name) ?? (await gateway.newConsumer(...(permissions as never[])));
      consumers.set(name, known);
      return known;
    };
    const allActions = [...permissionActions];

    for (const route of protectedRoutes.filter(({ permission }) => wantedBy(permission).length > 0)) {
      test(`${route.method} ${route.path} refuses those without it, before all else`, async () => {
        const wanted = wantedBy(route.permission);
        const foreign = permissionResources.filter((one) => wanted.every(({ resource }) => resource !== one));
        const lacking = {
          'every other resource': foreign.map((resource) => ({ resource, actions: allActions })),
          'every other action': permissionResources.map((resource) => ({
            resource,
            actions: allActions.filter((action) => wanted.every((one) => one.action !== action)),
          })),
        };
        for (const [who, permissions] of Object.entries(lacking)) {
          const as = await consumerWith(...permissions);
          for (const [what, path, options] of requestsTo(route)) {
            const response = await gateway.request(path, { ...options, as });
            const { required } = await assertProblem(response, 403, 'permission_denied');
            assert.deepEqual(required, wanted[0], `${who}, with ${what}`);
          }
        }
      });

      test(`${route.method} ${route.path} lets those in who have no other`, async () => {
        for (const { resource, action } of wantedBy(route.permission)) {
          const as = await consumerWith({ resource, actions: [action] });
          for (const [what, path, options] of requestsTo(route)) {
            const { status } = await gateway.request(path, { ...options, as });
            assert.ok(status !== 401 && status !== 403, `${status} with ${what}`);
          }
        }
      });
    }
  });
});

test('a route that does not say who may call it does not compile', () => {
  const { permission, ...rest } = openRoute;
  const route = {
    ...rest,
    path: '/v1/made-up',
    operationId: 'getMadeUp',
    handle: async () => ({ status: 200 }),
  };
  // @ts-expect-error -- the permission is missing
  defineRoute({ ...route });
  // @ts-expect-error -- an empty one says nothing
  defineRoute({ ...route, permission: {} });
  // @ts-expect-error -- there is no such resource
  defineRoute({ ...route, permission: { resource: 'everything', action: 'read' } });
  assert.ok(defineRoute({ ...route, permission }));
});

/** What all answers to one question have in common. */
function headersOf({ headers }: Response): string[][] {
  return [...headers].filter(
    ([name]) => !['date', 'x-request-id', 'connection', 'keep-alive'].includes(name),
  );
}

/** The attempt is logged once the answer is out, which may be a moment after it has come. */
async function loggedAttempt(
  { logLines }: TestGateway,
  from: number,
  id: string,
): Promise<Record<string, unknown>> {
  return eventually(
    () => {
      const line = logLines
        .slice(from)
        .find(({ message, facts }) => message === 'request' && facts['request_id'] === id);
      assert.ok(line, `no line of request ${id}`);
      return line.facts;
    },
    { everyMs: 1 },
  );
}

/** The consumers as an operator has them, beside the gateway. */
async function withStore<T>(
  { dataDir }: TestGateway,
  work: (store: ReturnType<typeof createConsumers>['store']) => Promise<T>,
): Promise<T> {
  const secrets = createFileSecretsManager({ dir: join(dataDir, 'secrets') });
  const { log } = recordLog();
  const { store } = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 30 });
  try {
    return await work(store);
  } finally {
    await secrets.close();
  }
}

/** A pair that was rotated out and whose grace window is over, of a consumer that has another one. */
async function expiredPair(gateway: TestGateway): Promise<Pair> {
  const pair = await gateway.newConsumer(...allPermissions());
  await withStore(gateway, async (store) => {
    const found = await store.find(pair.id);
    assert.ok(found);
    const expiresAt = new Date(Date.now() - 1000).toISOString();
    const credentials = found.consumer.credentials.map((one) => ({
      ...one,
      state: 'rotated' as const,
      expiresAt,
    }));
    await store.save({ ...found.consumer, credentials }, found.version);
  });
  await untilRefused(gateway, pair);
  return pair;
}

/** Of a consumer that was changed like that. */
async function pairWith(gateway: TestGateway, change: Partial<Consumer>): Promise<Pair> {
  const pair = await gateway.newConsumer(...allPermissions());
  await withStore(gateway, async (store) => {
    const found = await store.find(pair.id);
    assert.ok(found);
    await store.save({ ...found.consumer, ...change }, found.version);
  });
  await untilRefused(gateway, pair);
  return pair;
}

async function revokedPair(gateway: TestGateway): Promise<Pair> {
  const pair = await gateway.newConsumer(...allPermissions());
  await withStore(gateway, (store) => store.revoke(pair.id, commandLine()));
  await untilRefused(gateway, pair);
  return pair;
}

function allPermissions() {
  return permissionResources.map((resource) => ({ resource, actions: [...permissionActions] }));
}

/** A change of a file is seen a little later, and nothing shows when. */
async function untilRefused(gateway: TestGateway, as: Pair): Promise<void> {
  await eventually(async () =>
    assert.equal((await gateway.request('/v1/quotes?limit=0', { as })).status, 401),
  );
}
