import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problems } from '../../src/platform/base/problem.ts';
import { markdownFiles, readPage } from './pages.ts';

/** Words that say nothing, flatter, or claim that what readers find hard is not. */
const avoided =
  /\b(please|simply|eas(?:y|ily)|just|obviously|seamless(?:ly)?|effortless(?:ly)?|robust|leverag\w+|powerful|comprehensive|utili[sz]\w+|cutting-edge|world-class|blazing(?:ly)?|state-of-the-art|out of the box)\b/gi;

test('the documentation does without words that say nothing', () => {
  const found = markdownFiles().flatMap((page) => {
    const prose = readPage(page)
      .replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '')
      .replaceAll(/`[^`\n]+`/g, '');
    return [...prose.matchAll(avoided)].map(([word]) => `${page}: ${word}`);
  });
  assert.deepEqual(found, []);
});

test('the page on troubleshooting has every problem that an operator is asked about', () => {
  const page = readPage('docs/troubleshooting.md');
  // Those of the request itself are one row.
  const ofRequests = [400, 405, 413, 415];
  const missing = Object.entries(problems)
    .filter(([code, { status }]) => !ofRequests.includes(status) && !page.includes(`\`${code}\``))
    .map(([code]) => code);
  assert.deepEqual(missing, []);
});
