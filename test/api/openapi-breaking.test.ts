import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { breakingChanges, type OpenApi } from './breaking-changes.ts';

const read = (name: string) =>
  JSON.parse(readFileSync(join(import.meta.dirname, '../../docs', name), 'utf8')) as OpenApi;

describe('within /v1', () => {
  test('nothing breaks that the last release documented (docs/versioning.md)', async () => {
    assert.deepEqual(await breakingChanges(read('openapi.released.json'), read('openapi.json')), []);
  });

  // biome-ignore format: one change a line
  const breaks: Record<string, (api: Api) => unknown> = {
    'an operation is removed': (api) => delete api.paths['/v1/members'].get,
    'an operation needs other credentials': (api) => {
      api.components.securitySchemes.other = { type: 'apiKey', in: 'header', name: 'x-other' };
      api.paths['/v1/quotes'].get.security = [{ other: [] }];
    },
    'an operation needs credentials': (api) => delete api.paths['/v1/healthz'].get.security,
    'an answer is removed': (api) => delete api.paths['/v1/quotes/{id}'].get.responses['304'],
    'a content type of an answer is removed': (api) => delete api.paths['/v1/docs'].get.responses['200'].content['text/html'],
    'a header of an answer is removed': (api) => delete api.paths['/v1/quotes'].post.responses['201'].headers.Location,
    'a member of an answer is removed': ({ components: { schemas } }) => forget(schemas.Quote, 'source'),
    'a member of an answer becomes optional': ({ components: { schemas } }) => schemas.Quote.required.pop(),
    'a member of an answer becomes nullable': ({ components: { schemas } }) => { schemas.Quote.properties.id.type = ['string', 'null']; },
    'a member of an answer changes its type': ({ components: { schemas } }) => { schemas.QuotePage.properties.has_more.type = 'string'; },
    'a request needs a new member': ({ components: { schemas } }) => schemas.NewQuote.required.push('extra') && (schemas.NewQuote.properties.extra = { type: 'string' }),
    'a request may no longer have a member': ({ components: { schemas } }) => forget(schemas.NewQuote, 'source'),
    'a request may have less in a member': ({ components: { schemas } }) => { schemas.NewQuote.properties.name.maxLength = 100; },
    'a request must have more in a member': ({ components: { schemas } }) => { schemas.NewQuote.properties.name.minLength = 5; },
    'a member of a request has a new pattern': ({ components: { schemas } }) => { schemas.NewQuote.properties.name.pattern = '^a'; },
    'a member of a request changes its type': ({ components: { schemas } }) => { schemas.NewQuote.properties.name.type = 'integer'; },
    'a value of a request is no longer accepted': ({ components: { schemas } }) => schemas.Handoff.properties.type.enum.pop(),
    'a parameter is needed': (api) => api.paths['/v1/members'].get.parameters.push({ name: 'x', in: 'query', required: true, schema: { type: 'string' } }),
    'a header becomes needed': ({ components }) => { components.parameters['Optional-Idempotency-Key'].required = true; },
    'a parameter is removed': (api) => api.paths['/v1/members'].get.parameters.shift(),
    'a parameter has a smaller range': (api) => { api.paths['/v1/members'].get.parameters[0].schema.maximum = 100; },
  };
  for (const [what, change] of Object.entries(breaks)) {
    test(`it is noticed when ${what}`, async () => {
      assert.notDeepEqual(await after(change), []);
    });
  }

  test('what only adds is allowed', async () => {
    const changes: ((api: Api) => unknown)[] = [
      ({ components: { schemas } }) => {
        schemas.Quote.properties.extra = { type: 'string' };
        schemas.NewQuote.properties.extra = { type: 'string' };
        schemas.Problem.properties.code['x-extensible-enum'].push('new_code');
      },
      ({ paths }) => {
        paths['/v1/more'] = structuredClone(paths['/v1/members']);
        paths['/v1/members'].get.responses['418'] = { description: 'New.' };
        paths['/v1/members'].get.responses['200'].headers['X-New'] = { schema: { type: 'string' } };
        paths['/v1/members'].get.description = 'In other words.';
        paths['/v1/members'].get.deprecated = true;
      },
    ];
    for (const change of changes) assert.deepEqual(await after(change), []);
  });
});

/** What is found when the document of today is changed like this. */
function after(change: (api: Api) => unknown): Promise<string[]> {
  const today = read('openapi.json');
  const changed = structuredClone(today);
  change(changed);
  return breakingChanges(today, changed);
}

// oxlint-disable-next-line typescript/no-explicit-any -- any place of a document is changed here
type Api = any;

function forget(schema: { properties: Record<string, unknown>; required: string[] }, name: string): void {
  delete schema.properties[name];
  schema.required = schema.required.filter((other) => other !== name);
}
