import { relative } from 'node:path';
import type { EventData, TestsStream } from 'node:test';
import type { FileTimes } from './test-times.ts';

export interface Totals {
  counts: Record<'tests' | 'passed' | 'skipped', number>;
  /** Files that failed, and passed when they ran again. */
  secondTries: string[];
  /** The whole name of each failing test, and why it failed. */
  failures: string[];
  /** Those that took most processor time first. */
  times: FileTimes[];
}

/** Why a test may be skipped with CI=true: what its machines cannot have, or another run tries. */
const allowedSkips = [
  'there is no helm',
  'there is no systemd-analyze',
  'there is no older Node.js',
  'no rights to make namespaces of process ids',
  'the pool of connections has timers of its own',
  'could not be fetched',
  'this secrets manager reports no changes',
  'for the nightly run',
];

/**
 * Fills the list that it returns with the whole name of each failing test, so that it can be found and run again, and why it
 * failed. With CI=true a test that is skipped for another reason than those above has failed.
 */
export function collectFailures(
  results: TestsStream,
  { root, file: started }: { root: string; file: string },
): string[] {
  const failures: string[] = [];
  /** Names of the suites and tests around, by their depth. */
  let around: string[] = [];
  const fail = (data: EventData.TestPass | EventData.TestFail, why: string) => {
    const names = [...around.slice(0, data.nesting), data.name].map((name) => relativeTo(root, name));
    failures.push(`  ${[...new Set([started, ...names])].join(' > ')}\n    ${why}`);
  };
  results.on('test:start', ({ name, nesting }) => {
    around = [...around.slice(0, nesting), name];
  });
  results.on('test:fail', (data) => {
    const { failureType, cause, message } = data.details.error as TestError;
    // A suite fails with its tests and says nothing of its own.
    if (failureType === 'subtestsFailed') return;
    fail(data, cause instanceof Error ? reasonOf(cause, root) : firstLines(message));
  });
  results.on('test:pass', (data) => {
    if (data.skip === undefined || process.env['CI'] !== 'true') return;
    const reason = String(data.skip);
    if (!allowedSkips.some((allowed) => reason.includes(allowed))) fail(data, `skipped: ${reason}`);
  });
  return failures;
}

interface TestError extends Error {
  failureType?: string;
}

const mostLines = 8;
const mostCharacters = 300;

/** The first lines of its message, such as what was there and what was expected, and where in the project it was thrown. */
function reasonOf({ message, stack }: Error, root: string): string {
  const frame = stack?.split('\n').find((line) => /^\s+at /.test(line) && line.includes(`${root}/`));
  const place = frame?.slice(frame.indexOf(`${root}/`) + root.length + 1).replace(/\)$/, '');
  return firstLines(message) + (place === undefined ? '' : `\n    at ${place}`);
}

function firstLines(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines
    .slice(0, mostLines)
    .map((line) => line.trimEnd().slice(0, mostCharacters))
    .join('\n    ');
}

/** A process that fails by itself is named by the path of its file. */
function relativeTo(root: string, name: string): string {
  return name.startsWith(`${root}/`) ? relative(root, name) : name;
}

const mostFiles = 20;

/** What took longest, then how many tests did what, and last what failed. */
export function printTotals({ counts, times, secondTries, failures }: Totals): void {
  const seconds = times.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
  console.log(
    `\nProcessor seconds and seconds of the slowest files, of ${Math.round(seconds)} processor seconds:`,
  );
  for (const { file, cpuSeconds, wallSeconds } of times.slice(0, mostFiles))
    console.log(`${cpuSeconds.toFixed(1).padStart(7)} ${wallSeconds.toFixed(1).padStart(7)}  ${file}`);
  console.log(
    `\n${counts.tests} tests: ${counts.passed} passed, ${counts.skipped} skipped, ${failures.length} failed`,
  );
  if (secondTries.length > 0)
    console.log(
      `\n${secondTries.length} FILES PASSED ONLY AT THE SECOND TRY:\n  ${secondTries.join('\n  ')}`,
    );
  if (failures.length === 0) return;
  console.error(`\nFailed, with TEST_SEED=${process.env['TEST_SEED']}:\n${failures.join('\n')}`);
}
