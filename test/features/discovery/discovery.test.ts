import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startGateway, useGateway } from '../../support/gateway.ts';
import { assertProblem } from '../../support/problems.ts';

describe('what programs find without credentials', () => {
  const gateway = useGateway({ SECURITY_CONTACT: 'mailto:security@example.com' });
  const read = (path: string, method = 'GET') => gateway.request(path, { as: null, method });

  test('llms.txt: one heading, what it is, and links that lead somewhere', async () => {
    const response = await read('/llms.txt');
    assert.equal(response.headers.get('content-type'), 'text/markdown; charset=utf-8');
    const text = await response.text();
    assert.match(text, /^# Handoff Gateway\n\n> /);
    assert.equal(text.match(/^# /gm)?.length, 1);
    const links = [...text.matchAll(/\]\((\S+)\)/g)].map(([, href]) => String(href));
    assert.ok(links.length >= 4);
    for (const href of links) assert.equal((await fetch(href)).status, 200, href);
    assert.match(text, /- `hand_off`: /);
    assert.match(text, new RegExp(`npm install ${gateway.url}/client.tgz`));
  });

  test('the catalog of APIs (RFC 9727), also for HEAD', async () => {
    const response = await read('/.well-known/api-catalog');
    assert.match(String(response.headers.get('content-type')), /^application\/linkset\+json; profile="/);
    type Links = Record<string, string | { href: string }[]>;
    const { linkset } = (await response.json()) as { linkset: Links[] };
    const hrefs = linkset.flatMap((links) =>
      Object.values(links).flatMap((found) => (Array.isArray(found) ? found : [])),
    );
    const endpoints = linkset.at(-1)?.['item'] as { href: string }[];
    assert.deepEqual(
      endpoints.map(({ href }) => href.slice(gateway.url.length)),
      ['/v1/', '/api/v1/handoff', '/mcp'],
    );
    for (const { href } of hrefs.slice(0, 3)) assert.equal((await fetch(href)).status, 200, href);
    const head = await read('/.well-known/api-catalog', 'HEAD');
    assert.equal(head.headers.get('link'), `<${gateway.url}/.well-known/api-catalog>; rel="api-catalog"`);
  });

  test('security.txt (RFC 9116), where there is a contact', async () => {
    const response = await read('/.well-known/security.txt');
    assert.equal(response.headers.get('content-type'), 'text/plain; charset=utf-8');
    const fields = new Map(
      (await response.text())
        .trim()
        .split('\n')
        .map((line) => line.split(': ') as [string, string]),
    );
    assert.equal(fields.get('Contact'), 'mailto:security@example.com');
    const expires = Date.parse(fields.get('Expires') ?? '');
    assert.ok(expires > Date.now() && expires < Date.now() + 365 * 86_400_000);
    const other = await startGateway({ MCP_ENABLED: 'false' });
    await assertProblem(await other.request('/.well-known/security.txt', { as: null }), 404, 'not_found');
    assert.doesNotMatch(await (await other.request('/llms.txt', { as: null })).text(), /mcp|hand_off/);
    await other.stop();
  });
});
