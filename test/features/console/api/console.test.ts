import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { buildConsole } from '../../../../scripts/build-console.js';
import { readConsoleFiles } from '../../../../src/features/console/console-files.ts';
import { startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

describe('the console', () => {
  let gateway: TestGateway;
  before(async () => {
    await buildConsole();
    gateway = await startGateway();
  });
  after(() => gateway.stop());
  const get = (path: string, headers: Record<string, string> = {}) =>
    gateway.request(path, { as: null, headers });
  const page = async () => (await get('/console/')).text();
  /** Addresses of everything that the page loads. */
  const addresses = (html: string) =>
    [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path = '']) => path);
  const script = async () => addresses(await page()).find((path) => path.endsWith('.js')) ?? '';

  test('is a page under a strict policy, without inline code', async () => {
    const response = await get('/console/');
    const policy = response.headers.get('content-security-policy') ?? '';
    const html = await response.text();
    assert.ok(policy.includes("script-src 'self';"), policy);
    assert.match(policy, /default-src 'none'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/);
    assert.doesNotMatch(policy, /unsafe|http|\*|sha/);
    assert.equal(response.headers.get('cache-control'), 'no-cache');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    assert.doesNotMatch(html, /\bstyle=|https?:\/\/|<script[^>]*>[^<]/);
  });

  test('serves its files for ever, as what they are, under a hash of each', async () => {
    const paths = addresses(await page());
    assert.deepEqual(
      paths.map((path) => path.replace(/-[\da-f]{16}\./, '-HASH.')),
      ['icon-HASH.svg', 'console-HASH.css', 'console-HASH.js'].map((name) => `/console/files/${name}`),
    );
    const types = ['image/svg+xml', 'text/css; charset=utf-8', 'text/javascript; charset=utf-8'];
    for (const [i, path] of paths.entries()) {
      const response = await get(path, { 'accept-encoding': 'identity' });
      assert.equal(response.status, 200, path);
      assert.equal(response.headers.get('cache-control'), 'public, max-age=31536000, immutable');
      assert.equal(response.headers.get('content-type'), types[i]);
      const hash = createHash('sha256')
        .update(await response.text())
        .digest('hex')
        .slice(0, 16);
      assert.ok(path.includes(`-${hash}.`), path);
      const etag = response.headers.get('etag') ?? '';
      const again = await get(path, { 'accept-encoding': 'identity', 'if-none-match': etag });
      assert.equal(again.status, 304);
    }
  });

  test('has a source map for developers', async () => {
    const path = await script();
    const [, name = ''] = /\/\/# sourceMappingURL=(\S+)\s*$/.exec(await (await get(path)).text()) ?? [];
    const { sources } = (await (await get(`/console/files/${name}`)).json()) as { sources: string[] };
    assert.ok(sources.some((source) => source.endsWith('/main.tsx')));
  });

  test('has neither source map nor samples in production', async () => {
    const facts = {
      environment: 'prod',
      version: '1',
      crm_name: 'Salesforce',
      people: null,
      result_origins: [],
      can_break: false,
    };
    const { files, page: made } = await readConsoleFiles(true, facts);
    assert.deepEqual([...files.keys()].map((name) => name.replace(/-[\da-f]{16}\./, '.')).toSorted(), [
      'console.css',
      'console.js',
      'icon.svg',
    ]);
    for (const { text } of [...files.values(), made]) assert.doesNotMatch(text, /sourceMappingURL|samples-/);
  });

  test('has no file outside its own, nor one of another version', async () => {
    const path = await script();
    for (const other of [
      '/console/files/tsconfig.json',
      '/console/files/main.tsx',
      '/console/files/console.js',
      '/console/files/..%2fpackage.json',
      '/console/files/%2e%2e/%2e%2e/package.json',
      path.replace(/-[\da-f]{16}\./, '-0000000000000000.'),
    ]) {
      await assertProblem(await get(other), 404, 'not_found');
    }
    const { status, headers } = await fetch(`${gateway.url}/console`, { redirect: 'manual' });
    assert.deepEqual([status, headers.get('location')], [308, '/console/']);
  });

  test('says where records are shown, without credentials', async () => {
    await gateway.request('/v1/members?limit=1');
    const facts = (await (await get('/console/settings')).json()) as Record<string, string>;
    assert.deepEqual(Object.keys(facts), ['environment', 'version', 'crm_name', 'record_url', 'people']);
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
  const gateway = useGateway({
    CONSOLE_ENABLED: 'false',
    CRM_RECORD_URL: 'https://crm.example.com/{id}',
  });

  test('its paths do not exist, and browsers are sent to the documentation', async () => {
    for (const path of ['/console', '/console/', '/console/settings']) {
      await assertProblem(await gateway.request(path), 404, 'not_found');
    }
    const headers = { accept: 'text/html' };
    const { status, headers: sent } = await fetch(`${gateway.url}/`, { redirect: 'manual', headers });
    assert.deepEqual([status, sent.get('location')], [303, '/v1/docs']);
  });
});
