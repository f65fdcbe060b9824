import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { breakingChanges, type OpenApi, type Operation, resolved, type Schema } from './breaking-changes.ts';

const read = (name: string) =>
  JSON.parse(readFileSync(join(import.meta.dirname, '../../docs', name), 'utf8')) as OpenApi;
const today = read('openapi.json');
const whole = resolved(today);

/** A change of one operation; false where the operation has nothing to change like that. */
type Plant = (operation: Operation, at: { path: string; method: string; api: OpenApi }) => unknown;

/** Every kind of change that breaks somebody, by what is done. */
// biome-ignore format: one change a line
const breaks: Record<string, Plant> = {
  'a path is removed': (_, { api, path }) => delete api.paths[path],
  'an operation is removed': (_, { api, path, method }) => delete api.paths[path]?.[method],
  'other credentials are needed': (operation, { api }) => {
    api.components.securitySchemes['other'] = { type: 'apiKey', in: 'header', name: 'x-other' };
    operation.security = [{ other: [] }];
  },
  'credentials are needed': (operation) => operation.security?.length === 0 && delete operation.security,
  'credentials are sent elsewhere': (operation, { api }) => {
    if (operation.security !== undefined) return false;
    for (const scheme of Object.values(api.components.securitySchemes)) (scheme as { name: string }).name += '-2';
    return true;
  },
  'another permission is needed': ({ 'x-permissions': needed = [] }) =>
    needed.length > 0 && needed.splice(0, 1, 'other:read'),

  'an answer is removed': ({ responses }) => delete responses[successOf(responses)],
  'a documented refusal is removed': ({ responses }) => delete responses['405'],
  'a content type of an answer is removed': (operation) => {
    const { content } = successful(operation);
    return content && delete content[Object.keys(content)[0] as string];
  },
  'a header of an answer is removed': (operation) => delete successful(operation).headers?.['X-Request-Id'],
  'a member of an answer is removed': (operation) => onMember(answerOf(operation), (name, schema) => {
    delete schema.properties?.[name];
    schema.required = schema.required?.filter((other) => other !== name) ?? [];
  }),
  'a member of an answer becomes optional': (operation) => answerOf(operation)?.required?.pop(),
  'a member of an answer becomes nullable': (operation) => onValue(answerOf(operation), (schema) => { schema.type = [schema.type ?? '', 'null'].flat(); }, (schema) => typeof schema.type === 'string'),
  'a member of an answer changes its type': (operation) => onValue(answerOf(operation), (schema) => { schema.type = schema.type === 'boolean' ? 'string' : 'boolean'; }),
  'a member of an answer changes its format': (operation) => onValue(answerOf(operation), (schema) => { schema['format'] = 'date'; }, 'format'),
  'a value of an answer is no longer known': (operation) => onValue(answerOf(operation), (schema) => schema['x-extensible-enum']?.pop(), 'x-extensible-enum'),
  'an answer is another kind of value': (operation) => onSchema(answerOf(operation), (schema) => { schema.type = 'array'; }),

  'a body is needed': ({ requestBody }) => requestBody?.required === false && (requestBody.required = true),
  'a body is no longer taken': (operation) => operation.requestBody && delete operation.requestBody,
  'a content type of a request is removed': ({ requestBody }) => requestBody && delete requestBody.content['application/json'],
  'a request needs a new member': (operation) => onSchema(bodyOf(operation), (schema) => {
    schema.required = [...(schema.required ?? []), 'extra'];
    schema.properties = { ...schema.properties, extra: { type: 'string' } };
  }),
  'an optional member becomes needed': (operation) => onMember(bodyOf(operation), (name, schema) => {
    schema.required = [...(schema.required ?? []), name];
  }, (name, schema) => !schema.required?.includes(name)),
  'a member is no longer taken': (operation) => onMember(bodyOf(operation), (name, schema) => {
    delete schema.properties?.[name];
    schema.required = schema.required?.filter((other) => other !== name) ?? [];
  }),
  'a member of a request changes its type': (operation) => onValue(bodyOf(operation), (schema) => { schema.type = schema.type === 'boolean' ? 'string' : 'boolean'; }),
  'a value of a request is no longer taken': (operation) => onValue(bodyOf(operation), (schema) => schema.enum?.pop(), 'enum'),
  'a member of a request must be one of few': (operation) => onValue(bodyOf(operation), (schema) => { schema.enum = ['a']; }, (schema) => schema.type === 'string' && !schema.enum),
  'a text of a request must be shorter': (operation) => onValue(bodyOf(operation), (schema) => { schema['maxLength'] = Number(schema['maxLength']) - 1; }, 'maxLength'),
  'a text of a request must be longer': (operation) => onValue(bodyOf(operation), (schema) => { schema['minLength'] = Number(schema['minLength'] ?? 0) + 1; }, 'maxLength'),
  'a text of a request has a new pattern': (operation) => onValue(bodyOf(operation), (schema) => { schema['pattern'] = '^a'; }, (schema) => schema.type === 'string'),
  'a text of a request has a new format': (operation) => onValue(bodyOf(operation), (schema) => { schema['format'] = 'date'; }, (schema) => schema.type === 'string'),
  'a number of a request must be smaller': (operation) => onValue(bodyOf(operation), (schema) => { schema['maximum'] = Number(schema['maximum']) - 1; }, 'maximum'),
  'a list of a request must be shorter': (operation) => onValue(bodyOf(operation), (schema) => { schema['maxItems'] = 1; }, 'maxItems'),
  'a keyword that nothing here knows is added': (operation) => onSchema(bodyOf(operation), (schema) => { schema['dependentRequired'] = { a: ['b'] }; }),

  'a parameter is removed': ({ parameters = [] }) => parameters.splice(0, 1).length > 0,
  'a new parameter is needed': ({ parameters }) => parameters?.push({ name: 'x', in: 'query', required: true, schema: {} }),
  'a parameter becomes needed': ({ parameters = [] }) => {
    const optional = parameters.find(({ required }) => required !== true);
    return optional && (optional.required = true);
  },
  'a parameter changes its type': ({ parameters = [] }) => parameters[0] && (parameters[0].schema.type = 'boolean'),
  'a parameter takes less': ({ parameters = [] }) => parameters[0] && (parameters[0].schema['maxLength'] = 1),
  'a parameter takes other values': ({ parameters = [] }) => {
    const one = parameters.find(({ schema }) => schema.enum);
    return one?.schema.enum?.shift();
  },
};

// biome-ignore format: one change a line
const additions: Record<string, Plant> = {
  'a new path': (operation, { api }) => { api.paths['/v1/more'] = { get: structuredClone(operation) }; },
  'a new answer': ({ responses }) => { responses['418'] = {}; },
  'a new header': (operation) => { successful(operation).headers = { ...successful(operation).headers, 'X-New': { schema: { type: 'string' } } }; },
  'a new member of an answer': (operation) => onSchema(answerOf(operation), ({ properties = {} }) => { properties['extra'] = { type: 'string' }; }),
  'a new value of an answer': (operation) => onValue(answerOf(operation), (schema) => schema['x-extensible-enum']?.push('new'), 'x-extensible-enum'),
  'an optional member of a request': (operation) => onSchema(bodyOf(operation), ({ properties = {} }) => { properties['extra'] = { type: 'string' }; }),
  'a new value of a request': (operation) => onValue(bodyOf(operation), (schema) => schema.enum?.push('new'), 'enum'),
  'a wider limit of a request': (operation) => onValue(bodyOf(operation), (schema) => { schema['maxLength'] = Number(schema['maxLength']) + 1; }, 'maxLength'),
  'null in a request': (operation) => onValue(bodyOf(operation), (schema) => { schema.type = [schema.type ?? '', 'null'].flat(); }),
  'an optional parameter': ({ parameters }) => parameters?.push({ name: 'x', in: 'query', schema: {} }),
  'a further permission that is enough': (operation) => operation['x-permissions']?.push('other:read'),
  'no credentials': (operation) => { operation.security = []; delete operation['x-permissions']; },
  'other words': (operation) => Object.assign(operation, { description: 'In other words.', deprecated: true }),
};

describe('within /v1', () => {
  test('nothing breaks that the last release documented (docs/versioning.md)', () => {
    assert.deepEqual(breakingChanges(read('openapi.released.json'), today), []);
  });

  for (const [what, plant] of Object.entries(breaks)) {
    test(`it is noticed when ${what}`, () => {
      const planted = plantEverywhere(plant);
      assert.ok(planted.length > 0);
      for (const { where, findings } of planted) assert.notDeepEqual(findings, [], where);
    });
  }

  test('each kind of break is planted in reservations and in the webhook too', () => {
    const plantedAt = (path: string) =>
      Object.values(breaks).filter((plant) => plantEverywhere(plant, path).length > 0).length;
    assert.ok(plantedAt('/v1/reservations') >= 30);
    assert.ok(plantedAt('/v1/webhooks/crm/members') >= 25);
  });

  test('a type may be added to what is sent, and taken from what is answered, and not the other way round', () => {
    const [text, number] = [{ type: 'string' }, { type: 'number' }];
    const apiOf = (sent: Schema, answered: Schema): OpenApi => {
      const media = (schema: Schema) => ({ content: { 'application/json': { schema } } });
      const { info } = whole;
      const post = { requestBody: media(sent), responses: { 200: media(answered) } };
      return { info, paths: { '/x': { post } }, components: { securitySchemes: {} } };
    };
    const before = apiOf({ anyOf: [text] }, { anyOf: [text, number] });
    assert.deepEqual(breakingChanges(before, apiOf({ anyOf: [text, number] }, text)), []);
    const after = apiOf({ anyOf: [number] }, { anyOf: [text, { type: 'null' }] });
    assert.deepEqual(breakingChanges(before, after), [
      'post /x: body has no alternative for {"type":"string"}',
      'post /x: answer 200 has no alternative for {"type":"null"}',
    ]);
    const nullable = { type: ['string', 'null'] };
    assert.deepEqual(breakingChanges(apiOf(text, nullable), apiOf(nullable, text)), []);
    assert.deepEqual(breakingChanges(apiOf(nullable, text), apiOf(text, nullable)), [
      'post /x: body may no longer be null',
      'post /x: answer 200 may be null',
    ]);
  });

  for (const [what, plant] of Object.entries(additions)) {
    test(`it is allowed to add ${what}`, () => {
      const planted = plantEverywhere(plant);
      assert.ok(planted.length > 0);
      for (const { where, findings } of planted) assert.deepEqual(findings, [], where);
    });
  }
});

/** Each operation in a document of its own, and that as text. */
const alone = Object.entries(whole.paths).flatMap(([path, operations]) =>
  Object.entries(operations).map(([method, operation]) => {
    const { info, components, security = [] } = whole;
    const before: OpenApi = { info, components, security, paths: { [path]: { [method]: operation } } };
    return { path, method, before, text: JSON.stringify(before) };
  }),
);

/** The change made in every operation by itself, where it can be made, and what is found then. */
function plantEverywhere(plant: Plant, only?: string): { where: string; findings: string[] }[] {
  return alone.flatMap(({ path, method, before, text }) => {
    if (only !== undefined && path !== only) return [];
    const api = JSON.parse(text) as OpenApi;
    const isPlanted = plant(api.paths[path]?.[method] as Operation, { path, method, api });
    if (isPlanted === false || JSON.stringify(api) === text) return [];
    return [{ where: `${method} ${path}`, findings: breakingChanges(before, api) }];
  });
}

function successOf(responses: Operation['responses']): string {
  return Object.keys(responses).find((status) => status < '400') as string;
}

function successful({ responses }: Operation): Operation['responses'][string] {
  return responses[successOf(responses)] ?? {};
}

function answerOf(operation: Operation): Schema | undefined {
  return successful(operation).content?.['application/json']?.schema;
}

function bodyOf({ requestBody }: Operation): Schema | undefined {
  return requestBody?.content['application/json']?.schema;
}

function onSchema(schema: Schema | undefined, change: (schema: Schema) => unknown): boolean {
  if (schema) change(schema);
  return schema !== undefined;
}

/** Changes the first member of an object that fits. */
function onMember(
  schema: Schema | undefined,
  change: (name: string, schema: Schema) => void,
  fits: (name: string, schema: Schema) => boolean = () => true,
): boolean {
  const name = Object.keys(schema?.properties ?? {}).find((each) => fits(each, schema as Schema));
  if (name !== undefined) change(name, schema as Schema);
  return name !== undefined;
}

/** Changes the innermost value of a schema that comes first and fits, or has that keyword. */
function onValue(
  schema: Schema | undefined,
  change: (schema: Schema) => unknown,
  wanted: string | ((schema: Schema) => boolean) = () => true,
): boolean {
  const fits = typeof wanted === 'string' ? (each: Schema) => each[wanted] !== undefined : wanted;
  const value = valuesOf(schema).find((each) => fits(each));
  if (value) change(value);
  return value !== undefined;
}

/** All values below the schema, from the inside out. */
function valuesOf(schema: Schema | undefined): Schema[] {
  if (schema === undefined) return [];
  const parts = [...Object.values(schema.properties ?? {}), ...(schema.items ? [schema.items] : [])];
  return parts.flatMap((part) => [...valuesOf(part), part]);
}
