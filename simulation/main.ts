import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Options, readOptions } from './options.ts';
import type { Report } from './worker.ts';
import { themeOf } from './workload/themes.ts';

const worker = fileURLToPath(new URL('worker.ts', import.meta.url));
/** Compiled modules, as the tests have them: a worker loads hundreds. */
const compiled = fileURLToPath(new URL('../node_modules/.cache/compile-tests', import.meta.url));

/** Modules of a worker keep something of each run: after so many a fresh one takes its place. */
const seedsPerWorker = 30;

function* seedsOf({ first, count, minutes, theme }: Options): Generator<number, undefined> {
  const end = performance.now() + minutes * 60_000;
  for (let seed = first, left = count; left > 0 && performance.now() < end; seed++) {
    if (theme !== undefined && themeOf(seed) !== theme) continue;
    yield seed;
    left -= 1;
  }
}

/** Has workers simulate the seeds; `onReport` says whether to go on. Throws where a worker ends early. */
export async function simulateAll(
  args: readonly string[],
  onReport: (report: Report) => boolean,
): Promise<void> {
  const options = readOptions(args);
  const seeds = options.named?.values() ?? seedsOf(options);
  let isOver = false;
  const startWorker = () =>
    new Promise<void>((resolve, reject) => {
      const child: ChildProcess = fork(worker, [...args], {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        env: { NODE_COMPILE_CACHE: compiled, ...process.env },
      });
      let left = seedsPerWorker;
      const next = () => {
        left -= 1;
        const given = left < 0 || isOver ? undefined : seeds.next();
        isOver ||= given?.done === true;
        if (given === undefined || given.done) child.disconnect();
        else child.send(given.value);
      };
      child.on('message', (message: Report | 'ready') => {
        if (message !== 'ready' && !onReport(message)) isOver = true;
        next();
      });
      child.once('error', reject);
      child.once('exit', (code) =>
        code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`)),
      );
    });
  const work = async () => {
    while (!isOver) await startWorker();
  };
  await Promise.all(Array.from({ length: Math.min(options.workers, options.count) }, work));
}

/** A failing seed as a person reads it: what went wrong, what had happened, and how to see it again. */
export function describeFailure(
  { seed, violations, history, steps }: Report,
  args: readonly string[],
): string {
  const { steps: count, replicas, undo } = readOptions(args);
  const command = [
    `npm run simulate -- --seed ${seed} --steps ${count} --replicas ${replicas}`,
    ...(undo === undefined ? [] : [`--undo ${undo}`]),
  ].join(' ');
  return [
    `Seed ${seed} fails:`,
    ...violations.map((what) => `  ${what}`),
    ...(history.length > 0 ? [`What happened in ${steps.length} steps:`, ...history] : []),
    `To repeat it:  ${command}`,
    ...(steps.length > 0 && steps.length < count
      ? [`or shortened:  ${command} --only ${steps.join(',')}`]
      : []),
  ].join('\n');
}

async function main(): Promise<void> {
  const args = process.argv.slice(2);
  const { undo } = readOptions(args);
  const started = performance.now();
  let [done, failed] = [0, 0];
  const played = new Map<string, number>();
  await simulateAll(args, (report) => {
    done += 1;
    for (const [name, times] of Object.entries(report.played))
      played.set(name, (played.get(name) ?? 0) + times);
    if (report.violations.length > 0) {
      failed += 1;
      console.log(describeFailure(report, args));
    }
    // Of a fix that is taken back it is asked whether any seed finds it.
    return failed === 0 || undo === undefined;
  });
  const minutes = (performance.now() - started) / 60_000;
  const often = [...played].toSorted(([, a], [, b]) => b - a);
  console.log(`Steps: ${often.map(([name, times]) => `${name} ${times}`).join(', ')}`);
  console.log(`${done} seeds, ${failed} of them fail; ${(done / minutes).toFixed(0)} a minute`);
  process.exitCode = failed === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
