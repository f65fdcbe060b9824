import { randomInt } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { globalSetup, globalTeardown } from '../test/support/global-setup.ts';
import { changedFiles } from './changed-files.ts';
import { writeGroups } from './test-groups.ts';
import { isInRun, mayFailByChance } from './test-plan.ts';
import { printTotals } from './test-report.ts';
import { runTests } from './test-runner.ts';
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
// A second try does what the first did.
process.env['TEST_SEED'] ??= String(randomInt(1000));
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
const totals = await runTests(files, {
  root,
  concurrency: availableParallelism() + (isNightly ? 2 : 3),
  // Several times what any file takes alone: only one that hangs is to be ended.
  timeoutMs: isNightly ? 2_700_000 : 600_000,
  // For machines that are half as fast; all of CI has 90 minutes.
  limitMs: (isNightly ? 52 : 30) * 60_000,
  mayTryAgain: mayFailByChance,
  signal: interruption.signal,
  print: (text) => process.stdout.write(text),
});
printTotals(totals);
await globalTeardown();
process.exit(totals.failures.length === 0 && !interruption.signal.aborted ? 0 : 1);

function chooseFiles(): string[] {
  const named = process.argv.indexOf('--files');
  const all = named < 0 ? findTests() : process.argv.slice(named + 1);
  const changed = changedFiles() ?? [];
  const unit = new Set(findUnitTests());
  const isChosen = (file: string) => (unit.has(file) ? !isNightly : isInRun(file, { isNightly, changed }));
  const chosen = named < 0 ? all.filter(isChosen) : all;
  if (!isNightly && named < 0)
    console.log(`${all.length - chosen.length} of ${all.length} files are left to npm run test:nightly.`);
  const { groups, others } = writeGroups(chosen.filter((file) => !unit.has(file)));
  return [
    ...(chosen.some((file) => unit.has(file)) && named < 0
      ? ['test/support/unit-tests.ts']
      : chosen.filter((file) => unit.has(file))),
    ...others,
    ...groups,
  ];
}
