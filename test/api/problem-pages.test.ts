import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problems } from '../../src/platform/base/problem.ts';
import { useGateway } from '../support/gateway.ts';

describe('the type of a problem', () => {
  const gateway = useGateway();

  test('leads to a page about it, which needs no credentials', async () => {
    const refused = await gateway.request('/v1/quotes', { as: null });
    const { type } = (await refused.json()) as { type: string };
    assert.equal(type, '/v1/problems/invalid_credentials');
    const page = await gateway.request(type, { as: null });
    assert.equal(page.status, 200);
    assert.equal(page.headers.get('content-type'), 'text/plain; charset=utf-8');
    const text = await page.text();
    assert.match(text, /^invalid_credentials \(401\): The credentials are missing or not valid\n/);
    assert.match(text, /^What happened$/m);
    assert.match(text, /^What to do$/m);
  });

  test('a page is sent to who likes it better than the text', async () => {
    const typeOf = async (accept: string) =>
      (await gateway.request('/v1/problems/not_found', { as: null, headers: { accept } })).headers.get(
        'content-type',
      );
    for (const accept of [
      'text/html',
      'text/html,application/json',
      'application/json;q=0.1,text/html;q=0.9',
    ])
      assert.match((await typeOf(accept)) ?? '', /^text\/html/, accept);
    for (const accept of [
      'text/html;q=0',
      '*/*',
      'application/json,text/html',
      'text/html;q=0.1,application/json',
    ])
      assert.doesNotMatch((await typeOf(accept)) ?? '', /html/, accept);
  });

  for (const [code, { status, title, meaning }] of Object.entries(problems)) {
    test(`${code} is explained to programs and to browsers, with an example`, async () => {
      const path = `/v1/problems/${code}`;
      const text = await (await gateway.request(path, { as: null })).text();
      const { length } = text.split('\nExample\n')[0] as string;
      const example = JSON.parse(text.slice(length + '\nExample\n'.length)) as Record<string, unknown>;
      assert.deepEqual([example['type'], example['code'], example['status']], [path, code, status]);
      const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';
      const page = await gateway.request(path, { as: null, headers: { accept } });
      assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
      assert.match(
        page.headers.get('content-security-policy') ?? '',
        /^default-src 'none'; style-src 'sha256-/,
      );
      const html = await page.text();
      for (const part of [title, meaning.split(/[`'"]/)[0] as string]) assert.ok(html.includes(part), part);
    });
  }

  test('of an unknown code is 404, whatever its form', async () => {
    for (const code of ['other', 'constructor', '__proto__', 'x'.repeat(100)]) {
      assert.equal((await gateway.request(`/v1/problems/${code}`, { as: null })).status, 404, code);
    }
    assert.equal((await gateway.request('/v1/problems/%00', { as: null })).status, 400);
  });
});
