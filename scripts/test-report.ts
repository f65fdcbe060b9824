import { relative } from 'node:path';
import type { EventData, TestsStream } from 'node:test';

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
 * Collects failing tests, and makes the run fail for them. With CI=true a test that is skipped for another reason than those of
 * the list is one of them. Returns what prints their whole names, so that each can be found and run again.
 */
export function collectFailures(results: TestsStream): () => void {
  const failed: string[] = [];
  /** Names of the suites and tests around, by their depth. */
  let around: string[] = [];
  const fail = (data: EventData.TestPass | EventData.TestFail, why = '') => {
    process.exitCode = 1;
    const file = data.file === undefined ? '' : relative(process.cwd(), data.file);
    const names = [...around.slice(0, data.nesting), data.name];
    failed.push(`  ${[...new Set([file, ...names])].join(' > ')}${why}`);
  };
  results.on('test:start', ({ name, nesting }) => {
    around = [...around.slice(0, nesting), name];
  });
  results.on('test:fail', (data) => {
    process.exitCode = 1;
    // A suite fails with its tests and says nothing of its own.
    const { failureType } = data.details.error as { failureType?: string };
    if (failureType !== 'subtestsFailed') fail(data);
  });
  results.on('test:pass', (data) => {
    if (data.skip === undefined || process.env['CI'] !== 'true') return;
    const reason = String(data.skip);
    if (!allowedSkips.some((allowed) => reason.includes(allowed))) fail(data, `\n    skipped: ${reason}`);
  });
  return () => {
    if (failed.length > 0) console.error(`\nFailed:\n${failed.join('\n')}`);
  };
}
