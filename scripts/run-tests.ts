import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { globalSetup, globalTeardown } from '../test/support/global-setup.ts';
import { writeGroups } from './test-groups.ts';
import { findTests, findUnitTests } from './unit-tests.ts';

/*
 * All tests, with the totals of all at the end. The unit tests run in one process, some others in groups, and each further file
 * in a process of its own. More run at once than there are processors, since many wait most of the time: for replicas that were
 * killed, and for timers.
 */

/** Of the files that take longest, which begin first. */
const long = [
  /unit-tests/,
  /architecture/,
  /console/,
  /test-groups/,
  /odd-parameters/,
  /faults/,
  /gates/,
  /docs/,
];

const root = join(import.meta.dirname, '..');
const unit = new Set(findUnitTests());
const rank = (file: string) => {
  const found = long.findIndex((pattern) => pattern.test(file));
  return found < 0 ? long.length : found;
};
const { groups, others } = writeGroups(findTests().filter((file) => !unit.has(file)));
const files = ['test/support/unit-tests.ts', ...others, ...groups];
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
  timeout: 600_000,
  // A test that timed out may go on for ever: without it, its file would hold up the whole run.
  forceExit: true,
  signal: interruption.signal,
});
results.on('test:fail', () => {
  process.exitCode = 1;
});
results.once('close', () => void globalTeardown());
results.compose(spec).pipe(process.stdout);
