import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { generatedPages } from '../../scripts/generate-docs.ts';
import { createAllMetrics } from '../../src/app/metrics.ts';
import { anchors, codeBlocks, links, markdownFiles, readPage, root } from './pages.ts';

describe('the documentation', () => {
  for (const [path, text] of Object.entries(generatedPages())) {
    test(`${path} is as its tables are (if not: node scripts/generate-docs.ts)`, () => {
      assert.equal(readPage(path), text);
    });
  }

  test('links to files and headings that exist', () => {
    const broken = markdownFiles().flatMap((page) =>
      links(readPage(page))
        .filter((target) => !isGood(page, target))
        .map((target) => `${page}: ${target}`),
    );
    assert.deepEqual(broken, []);
  });

  test('has every page in the list of pages', () => {
    const listed = ['docs/README.md', 'docs/decisions.md'].flatMap((page) => links(readPage(page)));
    const pages = markdownFiles()
      .filter((page) => /^docs\/(?!README)/.test(page))
      .map((page) => page.slice('docs/'.length));
    assert.deepEqual(
      pages.filter((page) => !listed.includes(page)),
      [],
    );
  });

  test('names scripts that package.json has', () => {
    const { scripts } = JSON.parse(readPage('package.json')) as { scripts: Record<string, string> };
    const named = markdownFiles().flatMap((page) =>
      [...readPage(page).matchAll(/npm run (?:--silent )?([a-z][\w:-]*)/g)].map(([, name = '']) => ({
        page,
        name,
      })),
    );
    assert.ok(named.length > 0);
    assert.deepEqual(
      named.filter(({ name }) => !(name in scripts)),
      [],
    );
  });

  test('names every metric of the service', () => {
    const page = readPage('docs/metrics.md');
    const names = createAllMetrics()
      .registry.getMetricsAsArray()
      .map(({ name }) => name)
      .filter((name) => !/^(nodejs|process)_/.test(name));
    assert.deepEqual(
      names.filter((name) => !page.includes(`\`${name}\``)),
      [],
    );
  });

  test('shows JSON that is JSON', () => {
    const broken = markdownFiles().flatMap((page) =>
      codeBlocks(readPage(page))
        .filter(({ language, text }) => language === 'json' && !isJson(text))
        .map(({ text }) => `${page}: ${text}`),
    );
    assert.deepEqual(broken, []);
  });
});

/** Addresses of other hosts are left alone: a test that needs the network fails for other people's reasons. */
function isGood(page: string, target: string): boolean {
  // Nor are paths of the service, which its own tests follow.
  if (/^[a-z]+:|^\/v1\//.test(target)) return true;
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(root, file))) return false;
  return anchor === undefined || anchors(readPage(file)).has(anchor);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
