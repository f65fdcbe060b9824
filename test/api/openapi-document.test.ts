import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Type } from 'typebox';
import { openApiDocument } from '../../src/api/openapi/document.ts';
import {
  type Deprecation,
  defineRoute,
  deprecationHeaders,
  type Permission,
  type Route,
} from '../../src/api/route.ts';
import { documentedRoutes } from '../../src/app/routes.ts';
import { openRoute, startMadeUpServer } from './made-up-server.ts';

interface Operation {
  operationId: string;
  deprecated?: boolean;
  description: string;
  parameters: object[];
  requestBody?: { required: boolean; content: Record<string, { schema: object; example: unknown }> };
  responses: Record<string, { $ref?: string; headers?: object }>;
}

type Schema = Record<string, unknown> & { properties: Record<string, Schema> };

interface OpenApi {
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, Schema>;
    responses: Record<string, { headers: object; content: Record<string, { examples: object }> }>;
    headers: object;
  };
}

const tagsOf = (routes: Route[]) => Object.fromEntries(routes.map(({ tag }) => [tag, `What ${tag} is.`]));
const documentOf = (...routes: Route[]) =>
  openApiDocument(routes, { tags: tagsOf(routes), version: '1.2.3' }) as unknown as OpenApi;

function madeUp(change: Partial<Route> = {}, permission: Permission = { none: 'it is made up' }): Route {
  return {
    ...defineRoute({
      ...openRoute,
      permission,
      path: '/v1/made-up',
      operationId: 'getMadeUp',
      handle: async () => ({ status: 200, body: '{}' }),
    }),
    ...change,
  };
}

describe('a route that is deprecated', () => {
  const deprecation: Deprecation = {
    since: '2027-01-01T00:00:00Z',
    sunset: '2028-01-01T00:00:00Z',
    link: 'https://docs.example.com/v2',
  };
  const expected = {
    // RFC 9745 section 2: a structured-field date; RFC 8594 section 3: an HTTP date.
    deprecation: '@1798761600',
    sunset: 'Sat, 01 Jan 2028 00:00:00 GMT',
    link:
      '<https://docs.example.com/v2>; rel="deprecation"; type="text/html", ' +
      '<https://docs.example.com/v2>; rel="sunset"; type="text/html"',
  };

  test('says so in every answer, errors included, and works as before', async () => {
    const server = await startMadeUpServer(
      madeUp({ deprecation }),
      madeUp({ deprecation, path: '/v1/closed', permission: { resource: 'quotes', action: 'read' } }),
      madeUp({ deprecation, path: '/v1/broken', handle: () => Promise.reject(new Error('broken')) }),
      madeUp({ path: '/v1/current' }),
    );
    for (const [path, status] of [
      ['made-up', 200],
      ['made-up?unknown=1', 400],
      ['closed', 401],
      ['broken', 500],
    ] as const) {
      const { status: answered, headers } = await fetch(`${server.url}/v1/${path}`);
      assert.equal(answered, status);
      assert.partialDeepStrictEqual(Object.fromEntries(headers), expected);
    }
    const { headers } = await fetch(`${server.url}/v1/current`);
    for (const name of Object.keys(expected)) assert.equal(headers.get(name), null);
    await server.stop();
  });

  test('says so in the document', () => {
    const { paths, components } = documentOf(madeUp({ deprecation }), madeUp({ path: '/v1/current' }));
    const operation = paths['/v1/made-up']?.get;
    assert.equal(operation?.deprecated, true);
    assert.match(operation.description, /2027-01-01.*2028-01-01.*https:\/\/docs\.example\.com\/v2/);
    for (const [status, { $ref, headers }] of Object.entries(operation.responses)) {
      // What did not come whole has reached no operation.
      if (['408', '431'].includes(status)) continue;
      const shared = components.responses[($ref ?? '').replace('#/components/responses/', '')];
      const shown = Object.keys({ ...headers, ...shared?.headers });
      for (const name of ['Deprecation', 'Sunset', 'Link']) assert.ok(shown.includes(name), name);
    }
    const current = paths['/v1/current']?.get;
    assert.equal(current?.deprecated, undefined);
    assert.doesNotMatch(JSON.stringify(current), /Deprecat/);
  });

  test('cannot end before it begins, or at no date', () => {
    assert.throws(() => deprecationHeaders({ ...deprecation, sunset: '2026-01-01T00:00:00Z' }));
    assert.throws(() => deprecationHeaders({ ...deprecation, since: 'soon' }));
  });

  test('is none of those of today, whose document names no such header', () => {
    const { components } = documentOf(...documentedRoutes());
    assert.ok(!('Sunset' in components.headers));
  });
});

describe('the document', () => {
  test('lists a precondition, its failure and the key as the route has them', () => {
    const { paths } = documentOf(
      madeUp({ method: 'DELETE', conditional: 'If-Match', idempotencyKey: 'required' }),
      madeUp({ conditional: 'If-None-Match' }),
    );
    const [removal, reading] = [paths['/v1/made-up']?.delete, paths['/v1/made-up']?.get];
    assert.match(JSON.stringify(removal?.parameters), /If-Match/);
    assert.ok(
      removal && '412' in removal.responses && '409' in removal.responses && '422' in removal.responses,
    );
    assert.match(JSON.stringify(reading?.parameters), /If-None-Match/);
    assert.ok(reading && !('412' in reading.responses) && !('409' in reading.responses));
  });

  test('keeps requests closed and answers open', () => {
    const state = Type.Enum(['a', 'b']);
    const { components } = documentOf(
      madeUp({
        method: 'POST',
        request: { body: Type.Object({ state }, { additionalProperties: false, title: 'Sent' }) },
        answers: {
          200: {
            description: 'Done.',
            schema: Type.Object(
              { state, when: Type.Union([Type.String({ maxLength: 9 }), Type.Null()]) },
              { additionalProperties: false, title: 'Got' },
            ),
          },
        },
      }),
    );
    const { Sent, Got } = components.schemas;
    assert.equal(Sent?.['additionalProperties'], false);
    assert.deepEqual(Sent.properties['state']?.['enum'], ['a', 'b']);
    assert.equal(Got?.['additionalProperties'], undefined);
    assert.deepEqual(Got?.properties['state']?.['x-extensible-enum'], ['a', 'b']);
    assert.equal(Got?.properties['state']?.['enum'], undefined);
    assert.deepEqual(Got?.properties['when']?.['type'], ['string', 'null']);
  });

  test('refuses two schemas of one title that differ', () => {
    const titled = (schema: object) => ({
      200: { description: 'x', schema: Type.Object({}, { ...schema, title: 'One' }) },
    });
    assert.throws(
      () =>
        documentOf(
          madeUp({ answers: titled({}) }),
          madeUp({ path: '/v1/b', answers: titled({ maxProperties: 1 }) }),
        ),
      /title One/,
    );
  });

  test('has one operation for each route, and an example for each body and error', () => {
    const routes = documentedRoutes().filter((route) => !route.isUnlisted);
    const { paths, components } = documentOf(...routes);
    const operations = Object.values(paths).flatMap((path) => Object.values(path));
    assert.deepEqual(
      operations.map(({ operationId }) => operationId).sort(),
      routes.map(({ operationId }) => operationId).sort(),
    );
    for (const { operationId, requestBody } of operations) {
      const [content] = Object.values(requestBody?.content ?? {});
      if (requestBody) assert.ok(content?.example, operationId);
    }
    for (const [name, response] of Object.entries(components.responses)) {
      assert.ok(Object.keys(response.content['application/problem+json']?.examples ?? {}).length > 0, name);
    }
  });
});
