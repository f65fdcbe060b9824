import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { readImports } from '../test/architecture/imports.ts';
import { changedFiles } from './changed-files.ts';
import { startsProcesses } from './test-groups.ts';
import { isInRun } from './test-plan.ts';
import { findTests, findUnitTests } from './unit-tests.ts';

/*
 * The tests that import what has changed since the branch left main, those that start nothing also where they reach it, and the
 * gates that it touches, in seconds. What starts processes or a browser, and what is reached through the whole service only, is
 * for `npm test`.
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
const direct = new Set(
  [...changed].flatMap((path) => [path, ...(importers.get(path) ?? []).map(({ from }) => from)]),
);
const units = new Set(findUnitTests());
const gates = /^test\/(architecture\/architecture|docs\/(docs|names|words))\./;
const slow =
  /^test\/(features\/console|simulation|bench|deploy|gates|api\/(odd-parameters|fuzz)|architecture\/features)/;
/** Each starts the service for itself. */
const mostServices = 3;

const chosen = findTests().filter(
  (file) =>
    isInRun(file, { isNightly: false, changed }) &&
    (changed.has(file) || !slow.test(file)) &&
    (gates.test(file) || (units.has(file) ? reached.has(file) : direct.has(file) && !startsProcesses(file))),
);
const services = chosen.filter((file) => !units.has(file) && !changed.has(file)).slice(mostServices);
const tests = chosen.filter((file) => !services.includes(file));
if (services.length > 0) console.log(`Left to npm test, since they are many:\n  ${services.join('\n  ')}`);
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
