import './virtual/preload.ts';
import './virtual/validators.ts';
import { readOptions } from './options.ts';
import type { Result } from './run.ts';
import { takeBack } from './take-back.ts';
import type { Step } from './workload/plan.ts';

export interface Report {
  seed: number;
  violations: readonly string[];
  /** Shortened. */
  history: readonly string[];
  /** Numbers of the steps that are left of it. */
  steps: readonly number[];
  /** How often each step happened. */
  played: Result['played'];
}

/** Runs of a failing seed that look for a shorter one. */
const shorteningTries = 24;

const options = readOptions(process.argv.slice(2));
if (options.undo !== undefined) takeBack(options.undo);
const { CommonDatabase } = await import('./stores/database.ts');
const { run } = await import('./run.ts');
const { shorten } = await import('./shorten.ts');
const { planSteps } = await import('./workload/plan.ts');

const database = await CommonDatabase.open();
// Some modules are loaded when they are first needed, which no virtual time waits for.
await run({ seed: 0, replicas: 1 }, planSteps(0, 30), database);

async function simulate(seed: number): Promise<Report> {
  const circumstances = { seed, replicas: options.replicas };
  const planned = planSteps(seed, options.steps);
  const steps =
    options.only === undefined ? planned : planned.filter(({ number }) => options.only?.includes(number));
  const first = await run(circumstances, steps, database);
  const { played } = first;
  if (first.violations.length > 0) {
    const fails = async (fewer: readonly Step[]) =>
      (await run(circumstances, fewer, database)).violations.length > 0;
    const isShort = options.only !== undefined || options.undo !== undefined;
    const fewer = isShort ? steps : await shorten(steps, fails, shorteningTries);
    const { violations, history } = await run(circumstances, fewer, database);
    return { seed, violations, history, steps: fewer.map(({ number }) => number), played };
  }
  if (!options.isTwice) return { seed, violations: [], history: [], steps: [], played };
  const second = await run(circumstances, steps, database);
  const at = first.history.findIndex((line, nth) => line !== second.history[nth]);
  const isEqual = first.fingerprint === second.fingerprint;
  const violations = isEqual
    ? []
    : [`two runs of the seed differ:\n${first.history[at]}\n${second.history[at]}`];
  return { seed, violations, history: [], steps: [], played };
}

process.on('message', (seed: number) => {
  simulate(seed).then(
    (report) => process.send?.(report),
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
