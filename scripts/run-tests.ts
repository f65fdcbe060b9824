import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { globalSetup, globalTeardown } from '../test/support/global-setup.ts';
import { changedFiles } from './changed-files.ts';
import { writeGroups } from './test-groups.ts';
import { isInRun } from './test-plan.ts';
import { collectFailures } from './test-report.ts';
import { findTests, findUnitTests } from './unit-tests.ts';

/*
 * The tests of `npm test`, or with `--nightly` those that it leaves out, or with `--files` those that follow; the totals of all
 * come at the end. The unit tests run in one process, most others in groups, and each further file in a process of its own.
 * More run at once than there are processors, since many wait most of the time: for replicas that were killed, and for timers.
 */

/** Of the files that take longest, which begin first. */
const long = [
  /simulation\//,
  /unit-tests/,
  /console/,
  /group-/,
  /odd-parameters/,
  /architecture/,
  /faults/,
  /gates/,
  /docs/,
];

const root = join(import.meta.dirname, '..');
const isNightly = process.argv.includes('--nightly');
if (isNightly) process.env['TEST_NIGHTLY'] = 'true';
const files = chooseFiles();
const rank = (file: string) => {
  const found = long.findIndex((pattern) => pattern.test(file));
  return found < 0 ? long.length : found;
};
files.sort((a, b) => rank(a) - rank(b));

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => interruption.abort());

await globalSetup();
const results = run({
  cwd: root,
  files: files.map((file) => join(root, file)),
  concurrency: availableParallelism() + 2,
  // Several times what any file takes alone: only one that hangs is to be ended.
  timeout: isNightly ? 1_800_000 : 600_000,
  // A test that timed out may go on for ever: without it, its file would hold up the whole run. With the option `forceExit` this
  // process would end too, before it has printed the totals and stopped its servers.
  execArgv: ['--test-force-exit'],
  signal: interruption.signal,
});
const printFailures = collectFailures(results);
await pipeline(results.compose(spec), process.stdout, { end: false });
printFailures();
await globalTeardown();
process.exit();

function chooseFiles(): string[] {
  const named = process.argv.indexOf('--files');
  const all = named < 0 ? findTests() : process.argv.slice(named + 1);
  const changed = changedFiles() ?? [];
  const chosen = named < 0 ? all.filter((file) => isInRun(file, { isNightly, changed })) : all;
  if (!isNightly && named < 0)
    console.log(`${all.length - chosen.length} of ${all.length} files are left to npm run test:nightly.`);
  const unit = new Set(findUnitTests());
  const { groups, others } = writeGroups(chosen.filter((file) => !unit.has(file)));
  return [
    ...(chosen.some((file) => unit.has(file)) && named < 0
      ? ['test/support/unit-tests.ts']
      : chosen.filter((file) => unit.has(file))),
    ...others,
    ...groups,
  ];
}
