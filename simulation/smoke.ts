import './virtual/preload.ts';

const { CommonDatabase } = await import('./stores/database.ts');
const { run } = await import('./run.ts');
const { planSteps } = await import('./workload/plan.ts');
const real = performance.now.bind(performance);
const database = await CommonDatabase.open();
const [from = 1, to = 3, count = 100] = process.argv.slice(2).map(Number);
for (let seed = from; seed <= to; seed++) {
  const t = real();
  const steps = planSteps(seed, count);
  const first = await run({ seed, replicas: 3 }, steps, database);
  const ms = real() - t;
  const second = process.argv[5] ? first : await run({ seed, replicas: 3 }, steps, database);
  console.log(
    seed,
    Math.round(ms),
    first.events,
    first.fingerprint === second.fingerprint,
    first.history.at(-1)?.slice(0, 60),
    first.violations.length,
  );
  for (const v of first.violations.slice(0, 6)) console.log('   ', v.slice(0, 600));
  if (first.fingerprint !== second.fingerprint) {
    const k = first.history.findIndex((l, i) => l !== second.history[i]);
    console.log('DIFF', first.history.slice(k - 2, k + 2), second.history.slice(k - 2, k + 2));
  }
  (await import('node:fs')).writeFileSync(`/tmp/sim-history-${seed}.log`, first.history.join('\n'));
}
process.exit(0);
