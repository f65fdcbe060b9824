import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { renderMarkdown } from '../../../src/features/discovery/guides.ts';
import { root } from '../../docs/pages.ts';
import { useGateway } from '../../support/gateway.ts';
import { assertProblem } from '../../support/problems.ts';

describe('the Markdown of the guides', () => {
  test('becomes HTML, block by block', () => {
    assert.equal(
      renderMarkdown('# A *b* `<c>`'),
      '<h1 id="a-b-c">A <em>b</em> <code>&lt;c&gt;</code></h1>\n',
    );
    assert.equal(
      renderMarkdown('one\ntwo\n\n- three\n  four\n- [ ] five'),
      '<p>one\ntwo</p>\n<ul>\n<li>three\nfour</li>\n<li><span class="check">☐</span> five</li>\n</ul>\n',
    );
    assert.equal(renderMarkdown('1. a\n2. b'), '<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n');
    assert.equal(renderMarkdown('> a\n> b'), '<blockquote>\n<p>a\nb</p>\n</blockquote>\n');
    assert.equal(
      renderMarkdown('```ts\n# <no heading>\n\n- 1\n```\nafter'),
      '<pre><code class="language-ts"># &lt;no heading&gt;\n\n- 1\n</code></pre>\n<p>after</p>\n',
    );
    assert.match(
      renderMarkdown('| a |\n| --- |\n| `x\\|y` |'),
      /^<div class="table"><table>\n<thead>\n<tr>\n<th>a<\/th>[\s\S]*<td><code>x\|y<\/code><\/td>[\s\S]*<\/table>\n<\/div>\n$/,
    );
  });

  test('has links, with code in their text, and paths of the service as links', () => {
    assert.equal(
      renderMarkdown('[`a` **b**](c.md#d)'),
      '<p><a href="/v1/guides/c#d"><code>a</code> <strong>b</strong></a></p>\n',
    );
    assert.equal(renderMarkdown('`/v1/docs`'), '<p><a href="/v1/docs"><code>/v1/docs</code></a></p>\n');
    assert.equal(renderMarkdown('"a" & `[b](c)`'), '<p>&quot;a&quot; &amp; <code>[b](c)</code></p>\n');
  });

  test('runs and loads nothing that is in it', () => {
    assert.equal(
      renderMarkdown('<script>a</script>\n\nb <i onclick="c">d</i>'),
      '&lt;script&gt;a&lt;/script&gt;<p>b &lt;i onclick=&quot;c&quot;&gt;d&lt;/i&gt;</p>\n',
    );
    assert.equal(renderMarkdown('![a](https://b.example.com/c.png)'), '<p>a</p>\n');
    assert.equal(renderMarkdown('[a](javascript:b)'), '<p>a</p>\n');
    assert.equal(renderMarkdown('[a](/b"c)'), '<p><a href="/b&quot;c">a</a></p>\n');
    assert.equal(
      renderMarkdown('```a"><b>\n<c>\n```'),
      '<pre><code class="language-a&quot;&gt;&lt;b&gt;">&lt;c&gt;\n</code></pre>\n',
    );
  });
});

describe('the guides', () => {
  const gateway = useGateway();

  const browse = async (path: string) => {
    const response = await gateway.request(path, { as: null, headers: { accept: 'text/html,*/*' } });
    assert.equal(response.status, 200, path);
    return response;
  };
  const idsOf = (html: string) => new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
  const linksOf = (html: string) => [...html.matchAll(/<a href="([^"]+)"/g)].map(([, href]) => String(href));

  test('are all there, and their links lead somewhere', async () => {
    const first = await (await browse('/v1/guides')).text();
    const paths = new Set(linksOf(first).filter((href) => /^\/v1\/guides(\/[\w-]+)?$/.test(href)));
    const files = readdirSync(join(root, 'docs/partners'));
    assert.ok(files.length <= 10);
    for (const file of files.filter((name) => name !== 'README.md'))
      assert.ok(paths.has(`/v1/guides/${file.replace('.md', '')}`), file);
    const pages = new Map<string, string>();
    for (const path of paths) pages.set(path, await (await browse(path)).text());
    for (const [path, html] of pages)
      for (const href of linksOf(html)) await assertLeadsSomewhere(href, html, pages, path);
  });

  async function assertLeadsSomewhere(href: string, html: string, pages: Map<string, string>, path: string) {
    if (href.startsWith('https://')) return;
    const [target = '', anchor] = href.split('#');
    const page = target === '' ? html : (pages.get(target) ?? (await (await browse(target)).text()));
    assert.ok(anchor === undefined || idsOf(page).has(anchor), `${path}: ${href}`);
  }

  test('load nothing, name the gateway, and leave no Markdown behind', async () => {
    for (const path of ['/v1/guides', '/v1/guides/events', '/v1/guides/authentication']) {
      const response = await browse(path);
      assert.match(
        String(response.headers.get('content-security-policy')),
        /^default-src 'none'; style-src 'sha256-/,
      );
      const html = await response.text();
      assert.doesNotMatch(
        html,
        /<(script|img|iframe|object)\b|<style>[^<]*(@import|url\()|handoff\.example\.com/,
      );
      const prose = html.replaceAll(/<pre>[\s\S]*?<\/pre>|<code>.*?<\/code>/g, '');
      assert.doesNotMatch(prose, /\*\*|`|\]\(|\| ---/);
    }
    assert.ok((await (await browse('/v1/guides')).text()).includes(`export HANDOFF_URL=${gateway.url}`));
  });

  test('are Markdown for programs, and 304 for those who have them', async () => {
    const response = await gateway.request('/v1/guides/retries', { as: null });
    assert.equal(response.headers.get('content-type'), 'text/markdown; charset=utf-8');
    assert.match(await response.text(), /^# Retries and time-outs\n/);
    const headers = { 'if-none-match': String(response.headers.get('etag')) };
    assert.equal((await gateway.request('/v1/guides/retries', { as: null, headers })).status, 304);
    await assertProblem(await gateway.request('/v1/guides/nothing', { as: null }), 404, 'not_found');
  });

  test('have links in their Markdown that lead to guides', async () => {
    const markdown = async (path: string) => {
      const response = await gateway.request(path, { as: null });
      assert.equal(response.status, 200, path);
      return response.text();
    };
    const targetsOf = (text: string) =>
      [...text.matchAll(/\]\(([^()\s]+)\)/g)].map(([, target]) => String(target));
    const first = targetsOf(await markdown('/v1/guides'));
    assert.ok(first.includes('/v1/guides/handoff#approval'));
    for (const path of new Set(first.map((target) => target.replace(/#.*/, ''))))
      for (const target of targetsOf(await markdown(path)))
        assert.match(target, /^(https:\/\/|#|\/v1\/guides(\/|#|$))/, `${path}: ${target}`);
  });

  test('are what llms.txt and the API reference lead to', async () => {
    const text = await (await gateway.request('/llms.txt', { as: null })).text();
    assert.ok(text.includes(`](${gateway.url}/v1/guides)`));
    const document = (await (await gateway.request('/v1/docs', { as: null })).json()) as {
      info: { description: string };
    };
    assert.match(document.info.description, /\(\/v1\/guides\)/);
  });
});
