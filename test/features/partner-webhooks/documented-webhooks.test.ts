import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { eventTypes } from '../../../src/features/events/event-log.ts';

interface Webhook {
  post: { requestBody: { content: { 'application/json': { schema: object; example: { type: string } } } } };
}

test('the document has everything that is sent, with an example that fits its schema', () => {
  const path = join(import.meta.dirname, '../../../docs/openapi.json');
  const document = JSON.parse(readFileSync(path, 'utf8')) as { webhooks: Record<string, Webhook> };
  assert.deepEqual(Object.keys(document.webhooks), [...eventTypes, 'ping']);
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  for (const format of ['text', 'visible']) ajv.addFormat(format, true);
  ajv.addSchema(document, 'openapi.json');
  for (const [name, { post }] of Object.entries(document.webhooks)) {
    const { example } = post.requestBody.content['application/json'];
    assert.equal(example.type, name);
    const pointer = `#/webhooks/${name}/post/requestBody/content/application~1json/schema`;
    const isRight = ajv.compile({ $ref: `openapi.json${pointer}` });
    assert.ok(isRight(example), `${name}: ${JSON.stringify(isRight.errors)}`);
  }
});
