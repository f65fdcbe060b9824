import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { useGateway } from '../support/gateway.ts';

/** A terminal's control sequence in one character, a mark that turns the direction, a bell, a line of its own. */
const disturbing = ['\u009b31m', '\u202e', '\u2066', '\u200f', '\u0007', '\u0085', '\u2028', '\ud800', '\0'];

describe('texts that people see', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '5' });

  const permissions = [{ resource: 'quotes', actions: ['read'] }];
  const send = (method: string, path: string, body: object, headers: Record<string, string> = {}) =>
    gateway.request(path, { method, as: gateway.admin, body, headers });

  async function assertRefused(response: Response, pointer: string): Promise<void> {
    const { errors } = (await response.json()) as { errors: { pointer: string }[] };
    assert.deepEqual([response.status, errors.map((fault) => fault.pointer)], [400, [pointer]]);
  }

  test('are refused in fields of requests where they hold what disturbs', async () => {
    const { id } = (await (
      await send('POST', '/v1/admin/consumers', { name: 'Partner', permissions })
    ).json()) as {
      id: string;
    };
    for (const text of disturbing) {
      const name = `Part${text}ner`;
      await assertRefused(await send('POST', '/v1/admin/consumers', { name, permissions }), '#/name');
      await assertRefused(await send('PATCH', `/v1/admin/consumers/${id}`, { name }), '#/name');
      const url = 'https://partner.example/hook';
      await assertRefused(
        await send('POST', '/v1/webhook-endpoints', { url, description: name }),
        '#/description',
      );
      await assertRefused(await send('POST', '/v1/webhook-endpoints', { url: `${url}${text}` }), '#/url');
      if (!text.isWellFormed()) continue;
      const acted = await send(
        'PATCH',
        `/v1/admin/consumers/${id}`,
        { name: 'x' },
        {
          'x-actor': encodeURIComponent(name),
        },
      );
      assert.equal(acted.status, 400, JSON.stringify(text));
    }
  });

  test('may be of any script, with joiners', async () => {
    for (const name of ['Ünïcödé ☕', 'می‌خواهم', '👨‍👩‍👧‍👦 Familienreisen', '株式会社', 'שלום']) {
      const made = await send('POST', '/v1/admin/consumers', { name, permissions });
      assert.equal(((await made.json()) as { name: string }).name, name);
    }
  });

  test('are escaped where they come from headers, in log, attempts and audit', async () => {
    const odd = { 'user-agent': 'odd \x85\x9b31m\xadtool', 'x-request-id': 'a\x9bb' };
    await gateway.request('/v1/quotes', {
      as: null,
      headers: { ...odd, 'x-api-key': 'k\x9b31m\x85', 'x-api-secret': '\x9b' },
    });
    await send('POST', '/v1/admin/consumers', { name: 'Audited', permissions }, odd);
    const shown = 'odd \\u0085\\u009b31m\\u00adtool';
    const found = await eventually(async () => {
      const page = await gateway.request('/v1/admin/auth-attempts?limit=200', { as: gateway.admin });
      const { data } = (await page.json()) as { data: { user_agent: string; api_key: string }[] };
      const own = data.filter(({ user_agent }) => user_agent === shown);
      assert.ok(own.length >= 2, JSON.stringify(own));
      return own;
    });
    const keys = found.map(({ api_key }) => api_key).sort();
    assert.deepEqual(keys, [gateway.admin.apiKey, 'k\\u009b31m\\u0085'].sort());
    const events = await (await gateway.request('/v1/admin/audit-events', { as: gateway.admin })).text();
    assert.ok(events.includes(JSON.stringify(shown)));
    assert.doesNotMatch(events + JSON.stringify(gateway.logLines), /[\x80-\x9f\xad\u202e\u2066]/);
  });
});
