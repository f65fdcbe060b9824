import { installIfMissing, npmCommand } from './install-if-missing.js';
import { findNode } from './node-version.js';
import { runChild } from './run-child.js';

/** The npm scripts that check everything but behaviour, cheap ones first. */
const allChecks = [
  'check:format',
  'check:lint',
  'check:types',
  'check:dead-code',
  'check:secrets',
  'check:salesforce',
];

/** Within a minute, what most mistakes are found by. */
const isQuick = process.argv.includes('--quick');
const checks = isQuick ? ['check:lint', 'check:types'] : allChecks;
const tests = isQuick ? 'check:unit-tests' : 'check:tests';

/** Far above what the tests take; a run that hangs is to end with a message rather than with the machine's patience. */
const testTimeoutMs = 60 * 60_000;

let isInterrupted = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    isInterrupted = true;
  });
}

try {
  await installIfMissing({ production: false });
  findNode();
  process.exitCode = await runAll();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

/** Runs every check, so that one run shows all that is wrong, then the tests, whose totals come last. */
async function runAll() {
  const failed = [];
  for (const check of checks) if (!(await passes(check))) failed.push(check);
  for (const check of failed) console.error(`Failed: ${check}. Run it alone with: npm run ${check}`);
  // At a desk the cheap faults come first; CI shows everything at once.
  if (failed.length > 0 && process.env['CI'] !== 'true') {
    console.error(`The tests were not run. Run them alone with: npm run ${tests}`);
    return 1;
  }
  const testsPass = await passes(tests, testTimeoutMs);
  return failed.length === 0 && testsPass ? 0 : 1;
}

/**
 * @param {string} script
 * @param {number} [timeoutMs]
 */
async function passes(script, timeoutMs) {
  // The signal itself has reached the check before; this one is not to start.
  if (isInterrupted) throw new Error('Interrupted.');
  console.log(`\n== ${script}`);
  const [file, ...args] = npmCommand();
  return (await runChild(file, [...args, 'run', '--silent', script], { timeoutMs })) === 0;
}
