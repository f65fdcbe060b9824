import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import type { TSchema } from 'typebox';
import { Check } from 'typebox/value';
import { cutFaultyParts, maxFaults } from '../../src/api/pipeline/schema-faults.ts';
import type { Route } from '../../src/api/route.ts';
import { documentedRoutes } from '../../src/app/routes.ts';
import { type MadeUpServer, startMadeUpServer } from './made-up-server.ts';

const withBody = documentedRoutes().filter(
  ({ request, form, isUnlisted }) => request.body && form === undefined && !isUnlisted,
);
const bodyOf = ({ request }: Route) => request.body as TSchema;
const nameOf = ({ method, path }: Route) => `${method} ${path}`;

interface Schema {
  type?: string;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean;
  items?: Schema;
  maxItems?: number;
  maxLength?: number;
}

/** Each part of a schema, and how a value is put there. */
function* partsOf(
  schema: Schema,
  put: (value: unknown) => unknown = (value) => value,
): Generator<{ schema: Schema; put: (value: unknown) => unknown }> {
  yield { schema, put };
  if (schema.items) yield* partsOf(schema.items, (value) => put([value]));
  for (const [name, child] of Object.entries(schema.properties ?? {}))
    yield* partsOf(child, (value) => put({ [name]: value }));
}

const fields = (count: number, prefix: string) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, 1]));

const items = (count: number, item: unknown) => Array.from({ length: count }, () => item);

const nasty: [what: string, value: unknown][] = [
  ['many unknown fields', fields(40_000, 'unknown')],
  ['many items that are no objects', items(100_000, 1)],
  ['many items that are empty objects', items(100_000, {})],
  ['items with many unknown fields', items(100, fields(1000, 'u'))],
  ['a long text', 'a'.repeat(100_000)],
];

/** All fields, items and characters of a value together. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 1;
  return Object.values(value).reduce((sum: number, part) => sum + 1 + sizeOf(part), 0);
}

const isOfType = ({ type, items: ofItems }: Schema, value: unknown) =>
  Array.isArray(value)
    ? type === 'array' && typeof value[0] === (ofItems?.type ?? 'string')
    : type === typeof value;

/** Everything that must not be counted: the service takes any object there, and looks at none of it. */
const isFree = ({ type, additionalProperties }: Schema) => type === 'object' && additionalProperties === true;

describe('bodies of all routes', () => {
  test('have a bound for every text, array and object', () => {
    for (const route of withBody) {
      for (const { schema } of partsOf(bodyOf(route))) {
        const what = `${nameOf(route)}: ${JSON.stringify(schema)}`;
        if (schema.type === 'string' && !schema.enum) assert.ok(schema.maxLength, what);
        if (schema.type === 'array') assert.ok(schema.maxItems, what);
        if (schema.type === 'object') assert.ok(schema.additionalProperties !== undefined, what);
      }
    }
  });

  test('are cut, before their check, to what it can look through in no time', () => {
    for (const route of withBody) {
      for (const { schema, put } of partsOf(bodyOf(route))) {
        if (isFree(schema)) continue;
        for (const [what, value] of nasty) {
          // What has another type than it should is not looked into at all.
          if (!isOfType(schema, value)) continue;
          const body = put(value);
          const kept = cutFaultyParts(bodyOf(route), body, JSON.stringify(body));
          assert.ok(sizeOf(kept) < 20_000, `${nameOf(route)}, ${what}: ${sizeOf(kept)}`);
        }
      }
    }
  });

  test('are looked into once where a field is repeated, and only at its last value', () => {
    let looks = 0;
    const dining = {
      type: 'object',
      additionalProperties: false,
      get properties() {
        looks += 1;
        return { guest: { type: 'string', maxLength: 10 } };
      },
    };
    const schema = { type: 'object', additionalProperties: false, properties: { dining } };
    const repeated = '"dining":{"guest":"a"},'.repeat(10_000);
    const text = `{${repeated}"dining":{"guest":"${'b'.repeat(1000)}"}}`;
    const kept = cutFaultyParts(schema, JSON.parse(text), text);
    assert.deepEqual(kept, { dining: { guest: 'b'.repeat(22) } });
    assert.equal(looks, 1);
  });

  test('that are cut are refused, and others stay as they are', () => {
    const part = fc.oneof(
      fc.constant(fields(30, 'x')),
      fc.constant(fields(3, 'x')),
      fc.constant(items(30, { resource: 'quotes', actions: ['read'] })),
      fc.constant('a'.repeat(3000)),
      fc.string(),
      fc.constant(null),
    );
    for (const route of withBody) {
      const everyPart = [...partsOf(bodyOf(route))];
      const bodies = fc.array(fc.tuple(fc.nat(everyPart.length - 1), part), { maxLength: 4 }).map((puts) => {
        const parts = puts.map(([index, value]) => everyPart[index]?.put(value));
        return Object.assign({}, ...parts.filter((value) => typeof value === 'object')) as object;
      });
      fc.assert(
        fc.property(bodies, fc.boolean(), (body, twice) => {
          // White space makes any body one that is looked at; of a field that comes twice the last counts.
          const text = JSON.stringify(body);
          const first = twice && text !== '{}' ? `${text.slice(0, -1)},${text.slice(1)}` : text;
          const kept = cutFaultyParts(bodyOf(route), body, ' '.repeat(20_000) + first);
          if (kept === body) return;
          assert.ok(!Check(bodyOf(route), kept), 'the rest of a faulty body passes');
          assert.ok(!Check(bodyOf(route), body), 'a body without faults was cut');
        }),
        { numRuns: 50 },
      );
    }
  });
});

describe('the answer to a body with many faults', () => {
  let server: MadeUpServer;
  before(async () => {
    // The bodies of the service, and nothing else of it.
    const bare = withBody.map((route): Route => {
      const { prepare: _, signature: __, admit: ___, tellsFaults: ____, ...rest } = route;
      return {
        ...rest,
        permission: { none: 'a test' },
        idempotencyKey: 'ignored',
        handle: async () => ({ status: 204 }),
      };
    });
    server = await startMadeUpServer(...bare);
  });
  after(() => server.stop());

  const send = async ({ method, path }: Pick<Route, 'method' | 'path'>, body: string) => {
    const response = await fetch(server.url + path.replaceAll(/:\w+/g, crypto.randomUUID()), {
      method,
      headers: { 'content-type': 'application/json' },
      body,
    });
    return { status: response.status, problem: (await response.json()) as ReceivedProblem };
  };

  interface ReceivedProblem {
    code: string;
    detail: string;
    errors: { pointer: string; message: string }[];
  }

  test('names twenty, and says that there are more', async () => {
    for (const route of withBody) {
      for (const [what, count] of [
        ['small', 30],
        ['large', 2000],
      ] as const) {
        const { status, problem } = await send(route, JSON.stringify(fields(count, 'unknown')));
        assert.equal(status, 400, `${nameOf(route)}, ${what}`);
        assert.equal(problem.errors.length, maxFaults);
        assert.match(problem.detail, /and there are more faults than the 20 that are listed\.$/);
      }
    }
  });

  test('names all faults where they are few, in a body of any size', async () => {
    const details = { text: 'x'.repeat(100_000) };
    const body = { trip_id: 'none', name: 'a'.repeat(2000), details, extra: 1 };
    const { problem } = await send({ method: 'POST', path: '/v1/quotes' }, JSON.stringify(body));
    assert.deepEqual(
      problem.errors.toSorted((a, b) => (a.pointer < b.pointer ? -1 : 1)),
      [
        { pointer: '#/extra', message: "isn't known; leave it out" },
        { pointer: '#/member_id', message: 'is missing' },
        { pointer: '#/name', message: 'must have at most 255 characters' },
        { pointer: '#/source', message: 'is missing' },
        { pointer: '#/trip_id', message: 'must be a UUID' },
      ],
    );
  });

  test('has a pointer for a name that is no text, or is cut in the middle of a character', async () => {
    for (const name of ['\\ud800', `${'a'.repeat(199)}🧭`]) {
      const { status, problem } = await send({ method: 'POST', path: '/v1/quotes' }, `{"${name}":1}`);
      assert.equal(status, 400);
      assert.equal(problem.code, 'invalid_request');
    }
  });
});
