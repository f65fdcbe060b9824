import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
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
const quickChecks = ['check:unit-tests', 'check:lint', 'check:types'];

/**
 * After `npm test`, all that takes long, and how many minutes each may take: one after the other, since each needs the
 * whole machine.
 */
const nightlyMinutes = { 'check:tests:nightly': 54, 'test:soak': 10, 'check:mutants': 13 };

// The whole soak alone takes 20 minutes: it is for a change of what it tests.
const shortSoak = { SOAK_WRITES: '3000', SOAK_KILLS: '150' };

const isQuick = process.argv.includes('--quick');
const isNightly = process.argv.includes('--nightly');
const checks = isNightly ? [] : isQuick ? quickChecks : allChecks;
// An hour is far above what the tests take: they end with a message where they hang.
const steps = Object.entries(isNightly ? nightlyMinutes : isQuick ? {} : { 'check:tests': 60 });

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
  /** @type {string[]} */
  const failed = [];
  const waiting = [...checks];
  const runChecks = async () => {
    for (let check = waiting.shift(); check !== undefined; check = waiting.shift())
      if (!(await passesInSilence(check))) failed.push(check);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, runChecks));
  // At a desk the cheap faults come first; CI shows everything at once.
  const isOver = failed.length > 0 && process.env['CI'] !== 'true';
  for (const [step, minutes] of isOver ? [] : steps) {
    console.log(`\n== ${step}`);
    if (!(await passes(step, { timeoutMs: minutes * 60_000 }))) failed.push(step);
  }
  for (const script of failed) console.error(`Failed: ${script}. Run it alone with: npm run ${script}`);
  if (isOver && steps.length > 0) console.error(`Not run: ${steps.map(([step]) => step).join(', ')}.`);
  return failed.length === 0 ? 0 : 1;
}

/**
 * What it says comes when it is over, since others run at the same time.
 *
 * @param {string} script
 */
async function passesInSilence(script) {
  const folder = mkdtempSync(join(tmpdir(), 'handoff-check-'));
  const output = openSync(join(folder, 'output'), 'w');
  try {
    return await passes(script, { stdout: output, stderr: output });
  } finally {
    closeSync(output);
    console.log(`\n== ${script}\n${readFileSync(join(folder, 'output'), 'utf8')}`.trimEnd());
    rmSync(folder, { recursive: true });
  }
}

/**
 * @param {string} script
 * @param {Parameters<typeof runChild>[2]} options
 */
async function passes(script, options) {
  // The signal itself has reached the check before; this one is not to start.
  if (isInterrupted) throw new Error('Interrupted.');
  const [file, ...args] = npmCommand();
  const env = isNightly ? { ...shortSoak, ...process.env } : process.env;
  return (await runChild(file, [...args, 'run', '--silent', script], { env, ...options })) === 0;
}
