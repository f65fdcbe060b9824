import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { generatedCollection } from '../../scripts/generate-openapi.ts';
import { readPage } from '../docs/pages.ts';
import { useGateway } from '../support/gateway.ts';

interface Item {
  name: string;
  event?: { script: { exec: string[] } }[];
  request: {
    method: string;
    header: { key: string; value: string }[];
    url: { raw: string; path: string[]; variable?: { key: string; value: string }[] };
    body?: { raw?: string; urlencoded?: { key: string; value: string }[] };
  };
}

interface Collection {
  variable: { key: string; value: string }[];
  item: { name: string; item: Item[] }[];
}

const text = readPage('docs/postman_collection.json');
const collection = JSON.parse(text) as Collection;
const [journey, ...folders] = collection.item;

/** What the collection asks of Postman, and no more. */
describe('the collection for Postman', () => {
  const gateway = useGateway();
  const variables = new Map<string, string>();

  before(async () => {
    for (const { key, value } of collection.variable) variables.set(key, value);
    variables.set('baseUrl', gateway.url);
    variables.set('apiKey', gateway.admin.apiKey);
    variables.set('apiSecret', gateway.admin.apiSecret);
  });

  const filled = (template: string) =>
    template.replaceAll(/\{\{([$\w]+)\}\}/g, (_, name: string) => {
      const value = name === '$guid' ? randomUUID() : variables.get(name);
      assert.ok(value, `${name} has no value`);
      return value;
    });
  const send = async ({ request: { method, header, url, body } }: Item) => {
    const path = (url.variable ?? []).reduce((raw, { key, value }) => raw.replace(`:${key}`, value), url.raw);
    const response = await fetch(filled(path), {
      method,
      headers: Object.fromEntries(header.map(({ key, value }): [string, string] => [key, filled(value)])),
      ...(body?.raw && { body: filled(body.raw) }),
      ...(body?.urlencoded && {
        body: new URLSearchParams(
          body.urlencoded.map(({ key, value }): [string, string] => [key, filled(value)]),
        ),
      }),
    });
    return { response, content: await response.text() };
  };

  test('is as the routes are (if not: npm run openapi)', () => {
    assert.equal(text, generatedCollection());
  });

  test('has a journey whose tests pass', async () => {
    const passed: string[] = [];
    for (const step of journey?.item ?? []) {
      const { response, content } = await send(step);
      const pm = {
        test: (name: string, check: () => void) => {
          check();
          passed.push(name);
        },
        expect: (actual: unknown) => ({ to: { equal: (wanted: unknown) => assert.equal(actual, wanted) } }),
        response: {
          json: () => JSON.parse(content) as unknown,
          headers: response.headers,
          to: { have: { status: (wanted: number) => assert.equal(response.status, wanted, content) } },
        },
        collectionVariables: variables,
        variables: { replaceIn: filled },
      };
      for (const { script } of step.event ?? []) runInNewContext(script.exec.join('\n'), { pm });
    }
    assert.equal(passed.length, 10);
  });

  test('sends every operation to where it is', async () => {
    // What they do to the service's own consumers would end the test.
    const harmful = /\/v1\/admin\/consumers\/|\/v1\/webhooks\//;
    for (const { item } of folders) {
      for (const each of item.filter(({ request }) => !harmful.test(request.url.raw))) {
        const { response, content } = await send(each);
        assert.ok(response.status < 500, `${each.name}: ${content}`);
        assert.ok(![401, 403, 405, 415].includes(response.status), `${each.name}: ${content}`);
      }
    }
  });
});
