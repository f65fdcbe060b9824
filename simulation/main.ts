import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { readOptions } from './options.ts';
import type { Report } from './worker.ts';

const worker = fileURLToPath(new URL('worker.ts', import.meta.url));

/** Has workers simulate the seeds; `onReport` says whether to go on. Throws where a worker ends early. */
export async function simulateAll(
  args: readonly string[],
  onReport: (report: Report) => boolean,
): Promise<void> {
  const { seeds, workers } = readOptions(args);
  const waiting = [...seeds];
  const startWorker = () =>
    new Promise<void>((resolve, reject) => {
      const child: ChildProcess = fork(worker, [...args], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      const next = () => {
        const seed = waiting.shift();
        if (seed === undefined) child.disconnect();
        else child.send(seed);
      };
      child.on('message', (message: Report | 'ready') => {
        if (message !== 'ready' && !onReport(message)) waiting.length = 0;
        next();
      });
      child.once('error', reject);
      child.once('exit', (code) =>
        code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`)),
      );
    });
  await Promise.all(Array.from({ length: Math.min(workers, seeds.length) }, startWorker));
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
    return true;
  });
  const minutes = (performance.now() - started) / 60_000;
  const often = [...played].toSorted(([, a], [, b]) => b - a);
  console.log(`Steps: ${often.map(([name, times]) => `${name} ${times}`).join(', ')}`);
  console.log(`${done} seeds, ${failed} of them fail; ${(done / minutes).toFixed(0)} a minute`);
  process.exitCode = failed === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
