import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

describe('the console', () => {
  let gateway: TestGateway;
  before(async () => {
    gateway = await startGateway();
  });
  after(() => gateway.stop());
  const get = (path: string, headers: Record<string, string> = {}) =>
    gateway.request(path, { as: null, headers });
  /** Addresses of everything that the page loads. */
  const addresses = (html: string) =>
    new Set([...html.matchAll(/(?:href|src|data-samples)="([^"]+)"/g)].map(([, path = '']) => path));

  test('is a page under a strict policy, whose one inline script is allowed by its hash', async () => {
    const response = await get('/console/');
    const policy = response.headers.get('content-security-policy') ?? '';
    const html = await response.text();
    const [, script = ''] = /<script type="importmap">([^<]*)<\/script>/.exec(html) ?? [];
    const hash = createHash('sha256').update(script).digest('base64');
    assert.ok(policy.includes(`script-src 'self' 'sha256-${hash}';`), policy);
    assert.match(policy, /default-src 'none'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/);
    assert.doesNotMatch(policy, /unsafe|http|\*/);
    assert.equal(response.headers.get('cache-control'), 'no-cache');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    assert.doesNotMatch(html, /\bstyle=|https?:\/\//);
  });

  test('serves its files for ever, as what they are, in at most 110 kB', async () => {
    const html = await (await get('/console/')).text();
    const paths = addresses(html);
    assert.ok(paths.size > 20);
    let bytes = gzipSync(html).length;
    for (const path of paths) {
      const response = await get(path, { 'accept-encoding': 'identity' });
      assert.equal(response.status, 200, path);
      assert.equal(response.headers.get('cache-control'), 'public, max-age=31536000, immutable');
      const type = response.headers.get('content-type') ?? '';
      if (/\.(ts|js)$/.test(path)) assert.equal(type, 'text/javascript; charset=utf-8');
      const text = await response.text();
      bytes += gzipSync(text, { level: 9 }).length;
      assert.doesNotMatch(text, /^import type|sourceMappingURL/m, path);
      const again = await get(path, {
        'accept-encoding': 'identity',
        'if-none-match': response.headers.get('etag') ?? '',
      });
      assert.equal(again.status, 304);
    }
    assert.ok(bytes <= 110_000, `${bytes} bytes`);
  });

  test('has no file outside its own, nor under the hash of another version', async () => {
    const html = await (await get('/console/')).text();
    const [file = ''] = /\/console\/files\/\w+\/main\.ts/.exec(html) ?? [];
    const folder = file.slice(0, -'main.ts'.length);
    for (const path of [
      `${folder}tsconfig.json`,
      `${folder}..%2fpackage.json`,
      `${folder}%2e%2e/%2e%2e/package.json`,
      '/console/files/0000000000000000/main.ts',
    ]) {
      await assertProblem(await get(path), 404, 'not_found');
    }
    const { status, headers } = await fetch(`${gateway.url}/console`, { redirect: 'manual' });
    assert.deepEqual([status, headers.get('location')], [308, '/console/']);
  });

  test('says where records are shown, without credentials', async () => {
    await gateway.request('/v1/members?limit=1');
    const facts = (await (await get('/console/settings')).json()) as Record<string, string>;
    assert.deepEqual(Object.keys(facts), ['environment', 'version', 'record_url', 'people']);
    assert.equal(facts['record_url'], `${gateway.org.url}/{id}`);
  });

  test('is where a browser is sent from the root; a program gets the address of the documentation', async () => {
    const root = (accept: string) => fetch(`${gateway.url}/`, { redirect: 'manual', headers: { accept } });
    const browser = await root('text/html,application/xhtml+xml,*/*;q=0.8');
    assert.deepEqual([browser.status, browser.headers.get('location')], [303, '/console/']);
    const problem = await assertProblem(await root('*/*'), 404, 'not_found');
    assert.match(problem.detail, /\/v1\/docs/);
  });
});

describe('where the console is not enabled', () => {
  let gateway: TestGateway;
  before(async () => {
    gateway = await startGateway({
      CONSOLE_ENABLED: 'false',
      CRM_RECORD_URL: 'https://crm.example.com/{id}',
    });
  });
  after(() => gateway.stop());

  test('its paths do not exist, and browsers are sent to the documentation', async () => {
    for (const path of ['/console', '/console/', '/console/settings']) {
      await assertProblem(await gateway.request(path), 404, 'not_found');
    }
    const headers = { accept: 'text/html' };
    const { status, headers: sent } = await fetch(`${gateway.url}/`, { redirect: 'manual', headers });
    assert.deepEqual([status, sent.get('location')], [303, '/v1/docs']);
  });
});
