import './virtual/preload.ts';

const { CommonDatabase } = await import('./stores/database.ts');
const { run } = await import('./run.ts');
const { planSteps } = await import('./workload/plan.ts');
const real = performance.now.bind(performance);
const database = await CommonDatabase.open();
const [from = 1, to = 3, count = 100] = process.argv.slice(2).map(Number);
for (let seed = from; seed <= to; seed++) {
  const t = real();
  const c0 = process.cpuUsage();
  const steps = planSteps(seed, count);
  const first = await run({ seed, replicas: 3 }, steps, database);
  const ms = real() - t;
  const second = process.argv[5] ? first : await run({ seed, replicas: 3 }, steps, database);
  console.log(
    seed,
    Math.round(ms),
    'cpu',
    Math.round((process.cpuUsage(c0).user + process.cpuUsage(c0).system) / 1000),
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
if ((globalThis as any).__q) {
  const all = [...(globalThis as any).__q];
  console.log(
    'n',
    all.reduce((a, [, e]) => a + e[0], 0),
    'ms',
    all.reduce((a, [, e]) => a + e[1], 0),
  );
  for (const [k, e] of all.sort((a: any, b: any) => b[1][1] - a[1][1]).slice(0, 40))
    console.log(e[0], e[1].toFixed(0), k);
}
process.exit(0);
