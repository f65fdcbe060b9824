import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { generatedOpenApi } from '../../scripts/generate-openapi.ts';

type Json = Record<string, unknown>;

interface OpenApi {
  paths: Record<string, Record<string, { operationId: string }>>;
  components: Record<string, Json>;
}

const parsed = (): OpenApi => JSON.parse(generatedOpenApi()) as OpenApi;

/** What orval, openapi-typescript, @hey-api/openapi-ts, oazapfts and kubb need for code that compiles, beyond the rules of redocly.yaml. */
describe('code generated from the document', () => {
  test('can name the elements of every array', () => {
    assert.deepEqual(arraysOfAnything(parsed()), []);
    const planted = { a: { type: 'array' }, b: { type: ['null', 'array'], maxItems: 1 } };
    assert.deepEqual(arraysOfAnything({ properties: planted }), ['/properties/a', '/properties/b']);
    const inBranches = { anyOf: [{ type: 'array', items: { type: 'array' } }] };
    assert.deepEqual(arraysOfAnything(inBranches), ['/anyOf/0/items']);
  });

  test('has objects whose named members fit what is said of all others', () => {
    assert.deepEqual(objectsOfTwoMinds(parsed()), []);
    const named = { properties: { status: { type: 'string' } } };
    assert.deepEqual(objectsOfTwoMinds({ a: { ...named, additionalProperties: { type: 'object' } } }), [
      '/a',
    ]);
    for (const additionalProperties of [true, false, {}])
      assert.deepEqual(objectsOfTwoMinds({ a: { ...named, additionalProperties } }), []);
    assert.deepEqual(objectsOfTwoMinds({ a: { additionalProperties: { type: 'string' } } }), []);
  });

  test('has a name of its own for every type, also where names of files have no case', () => {
    assert.deepEqual(sharedNames(parsed()), []);
    for (const name of [
      'quote',
      'Quote-Page',
      'ListQuotesParams',
      'createQuoteResponse',
      'IfMatchParameter',
      'Handoff',
      'CreateQuoteMutationRequest',
    ]) {
      const planted = parsed();
      Object.assign(planted.components['schemas'] ?? {}, { [name]: { type: 'object' } });
      assert.equal(sharedNames(planted).length, 1, name);
    }
  });
});

/** Where the schemas are that are arrays, or can be, and do not say of what; examples are no schemas. */
function arraysOfAnything(node: unknown, path = ''): string[] {
  if (typeof node !== 'object' || node === null) return [];
  const { type, items } = node as { type?: unknown; items?: unknown };
  const isArray = [type].flat().includes('array') && items === undefined;
  const inner = Object.entries(node)
    .filter(([key]) => !/^examples?$/.test(key))
    .flatMap(([key, value]) => arraysOfAnything(value, `${path}/${key}`));
  return isArray ? [path, ...inner] : inner;
}

/**
 * Where the schemas are that have members by name and a type for all others: in TypeScript the members have to be of that type
 * too (TS2411).
 */
function objectsOfTwoMinds(node: unknown, path = ''): string[] {
  if (typeof node !== 'object' || node === null) return [];
  const { properties, additionalProperties: others } = node as {
    properties?: object;
    additionalProperties?: unknown;
  };
  const isTyped = typeof others === 'object' && others !== null && Object.keys(others).length > 0;
  const inner = Object.entries(node)
    .filter(([key]) => !/^examples?$/.test(key))
    .flatMap(([key, value]) => objectsOfTwoMinds(value, `${path}/${key}`));
  return properties !== undefined && isTyped ? [path, ...inner] : inner;
}

/**
 * What the function and the types of an operation's parts are named with: orval's and kubb's clash with schemas of such a
 * name (TS2300).
 */
const suffixes = [
  ...['', 'Body', 'Data', 'Error', 'Errors', 'Params', 'Query', 'Response', 'Responses'],
  ...[
    'Mutation',
    'MutationRequest',
    'MutationResponse',
    'QueryParams',
    'QueryResponse',
    'PathParams',
    'HeaderParams',
  ],
];

/** Names of types that generators make more than once, without regard to case and to what stands between words. */
function sharedNames(document: OpenApi): string[] {
  const { schemas = {}, parameters = {}, responses = {} } = document.components;
  const names = [
    ...Object.keys(schemas),
    ...Object.keys(parameters).map((name) => `${name}Parameter`),
    ...Object.keys(responses).map((name) => `${name}Response`),
    ...operationIds(document).flatMap((id) => suffixes.map((suffix) => `${id}${suffix}`)),
  ];
  const groups = Map.groupBy(names, (name) => name.replaceAll(/[^a-zA-Z0-9]/g, '').toLowerCase());
  return [...groups.values()].filter(({ length }) => length > 1).map((group) => group.join(', '));
}

function operationIds({ paths }: OpenApi): string[] {
  return Object.values(paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId));
}
