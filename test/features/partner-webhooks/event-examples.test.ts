import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeRoutes, documentedRoutes } from '../../../src/app/routes.ts';

interface Example {
  type: string;
  resource: { type: string; id: string };
  data: { id?: string; external_id?: string; status?: string };
}

const { webhooks } = describeRoutes(documentedRoutes()) as {
  webhooks: Record<string, { post: { requestBody: { content: Record<string, { example: Example }> } } }>;
};

for (const [type, { post }] of Object.entries(webhooks)) {
  test(`the example of ${type} agrees with itself, and is of a live consumer`, () => {
    const example = post.requestBody.content['application/json']?.example;
    assert.ok(example);
    const { data, resource } = example;
    assert.deepEqual(
      [example.type, resource.type],
      [type, type === 'ping' ? 'webhook_endpoint' : type.split('.')[0]],
    );
    assert.equal(data.id ?? data.external_id, resource.id);
    assert.ok(!('mode' in example) && !('data_omitted' in example));
    const [kind = '', happened] = type.split('.');
    if (['handoff', 'reservation'].includes(kind)) assert.equal(data.status, happened);
    if (happened === 'deleted') assert.deepEqual(Object.keys(data), ['id']);
  });
}
