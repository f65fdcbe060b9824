import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { documentedRoutes } from '../../../src/app/routes.ts';
import { requestOf } from '../../../src/features/mcp/tool-call.ts';
import { toolsOf } from '../../../src/features/mcp/tools.ts';
import { useGateway } from '../../support/gateway.ts';
import { offerFor } from '../../support/handoffs.ts';
import { callTool } from '../../support/mcp.ts';

/** As many as a message of the largest size holds. */
const many = Object.fromEntries(Array.from({ length: 30_000 }, (_, i) => [`u${i}`, i]));

describe('thousands of unknown arguments', () => {
  const gateway = useGateway();

  for (const [name, route] of toolsOf(documentedRoutes())) {
    test(`reach the route of ${name} as one more than it names`, () => {
      const given = { ...many, intent: 'x'.repeat(200), actor: 'eva@example.com', id: 'x' };
      const bodyText = JSON.stringify({ params: { arguments: given } });
      const { url, body = '' } = requestOf(route, {
        ...{ parsed: given, bodyText, hasHostActor: false },
        keyOf: () => assert.fail('no key is needed'),
        words: (text) => text,
      });
      const unknown = `${url}${body}`.match(/\bu\d+\b/g) ?? [];
      assert.equal(new Set(unknown).size, 21);
      assert.ok(url.length + body.length < 3000, `${url.length} ${body.length}`);
    });
  }

  for (const [tool, given] of [
    ['hand_off', { type: 'quote' }],
    ['list_quotes', {}],
    ['get_quote', { id: crypto.randomUUID() }],
    ['update_quote', { id: crypto.randomUUID() }],
  ] as const) {
    test(`are refused by ${tool}, which names 20 of them`, async () => {
      const { structuredContent } = await callTool(gateway.url, gateway.console, tool, { ...given, ...many });
      assert.equal(structuredContent['code'], 'invalid_request');
      assert.equal((structuredContent['errors'] as object[]).length, 20);
      assert.match(String(structuredContent['detail']), /more faults than the 20 that are listed/);
    });
  }

  test('change nothing of what a route checks before them, and 20 of them are all named', async () => {
    const shop = await gateway.newConsumer({ resource: 'quotes', actions: ['write'] });
    const call = async (given: object) =>
      (await callTool(gateway.url, shop, 'hand_off', given)).structuredContent;
    const offer = offerFor(gateway.org.memberId);
    assert.equal((await call({ ...offer, ...many, type: 'booking' }))['code'], 'permission_denied');
    const refused = (await call({ ...offer, ...many })) as { errors: { message: string }[] };
    assert.deepEqual(
      new Set(refused.errors.map(({ message }) => message)),
      new Set(["isn't known; leave it out"]),
    );
    const few = Object.fromEntries(Object.entries(many).slice(0, 20));
    const { errors } = (await call({ ...offer, ...few })) as { errors: { pointer: string }[] };
    assert.deepEqual(
      errors.map(({ pointer }) => pointer),
      Object.keys(few).map((name) => `#/${name}`),
    );
  });
});
