import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { readImports } from '../test/architecture/imports.ts';
import { changedFiles } from './changed-files.ts';
import { isInRun } from './test-plan.ts';
import { findTests } from './unit-tests.ts';

/*
 * The tests that import what has changed since the branch left main, the tests beside it, and the gates that it touches. What
 * is reached through the whole service only is for `npm test`.
 */

const root = join(import.meta.dirname, '..');
const folders = [
  'src',
  'client',
  'console',
  'simulators',
  'salesforce',
  'scripts',
  'bench',
  'test',
  'simulation',
];
/** Import everything, so that everything would be reached through them. */
const whole = /^(src\/(app\/|features\.ts|main\.ts|cli\/cli\.ts)|test\/support\/gateway)/;

const changed = changedFiles() ?? new Set<string>();
const reached = new Set(changed);
const importers = Map.groupBy(readImports(root, folders), ({ to }) => to);
for (const path of reached)
  for (const { from } of importers.get(path) ?? []) if (!whole.test(from)) reached.add(from);
const mirrors = new Set(
  [...changed].filter((path) => path.startsWith('src/')).map((path) => `test/${dirname(path).slice(4)}`),
);
const tests = findTests().filter(
  (file) =>
    isInRun(file, { isNightly: false, changed }) &&
    (reached.has(file) ||
      mirrors.has(dirname(file)) ||
      /^test\/(architecture\/architecture|docs\/(docs|names|words))\./.test(file)),
);
console.log(`${changed.size} files have changed; of the tests, these are run:\n  ${tests.join('\n  ')}`);

const code = [...changed].filter((path) => /\.(tsx?|js)$/.test(path) && importers.size > 0);
const isOk = [
  ...(code.length > 0
    ? [
        ['biome', 'check', '--error-on-warnings', '--no-errors-on-unmatched', ...code],
        ['oxlint', '--format', 'unix', '--deny-warnings', ...code],
        ['tsc', '--singleThreaded'],
      ]
    : []),
  ['node', 'scripts/run-tests.ts', '--files', ...tests],
].map(([program = '', ...words]) => {
  const { status } = spawnSync(join(root, 'node_modules/.bin', program), words, {
    cwd: root,
    stdio: 'inherit',
  });
  return status === 0;
});
process.exitCode = isOk.every(Boolean) ? 0 : 1;
