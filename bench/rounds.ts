import { cpus } from 'node:os';
import { type Load, type LoadResult, load } from './load.ts';
import { type OpenLoad, openLoad } from './open-load.ts';
import type { Program } from './processes.ts';
import type { Cell } from './report.ts';
import { type Spread, spreadOf } from './spread.ts';

/** One measurement, with what it cost. */
export interface Measured extends LoadResult {
  /** Microseconds of CPU time an answer, by program. */
  cpu: Record<string, number>;
  /** Cores that the whole machine kept busy meanwhile, strangers included. */
  busyCores: number;
}

/** Puts the load on and watches the programs, by the names that a reader knows them by. */
export async function measure(
  request: Load | OpenLoad,
  programs: Record<string, Program>,
): Promise<Measured> {
  const spent = () => ({
    ...Object.fromEntries(Object.entries(programs).map(([name, program]) => [name, program.cpuSeconds()])),
    'load generator': ownCpuSeconds(),
  });
  const before: Record<string, number> = spent();
  const machineBefore = machineSeconds();
  const result = 'clients' in request ? await load(request) : await openLoad(request);
  const machineAfter = machineSeconds();
  const cpu: Record<string, number> = {};
  for (const [name, after] of Object.entries(spent())) {
    cpu[name] = ((after - (before[name] ?? 0)) * 1e6) / result.answers;
  }
  const busy = machineAfter.busy - machineBefore.busy;
  const all = machineAfter.all - machineBefore.all;
  return { ...result, cpu, busyCores: (busy / all) * cpus().length };
}

/**
 * Takes all measurements in turn, round by round, each round in the reverse order of the last, so that what the
 * machine does meanwhile strikes all of them alike. The first round, which warms up, does not count.
 */
export async function interleave<K extends string, M extends Measured>(
  rounds: number,
  measurements: Record<K, () => Promise<M>>,
): Promise<Record<K, M[]>> {
  const names = Object.keys(measurements) as K[];
  const results = Object.fromEntries(names.map((name) => [name, [] as M[]])) as Record<K, M[]>;
  for (let round = 0; round <= rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const measured = await measurements[name]();
      if (round > 0) results[name].push(measured);
    }
  }
  return results;
}

/** What all tables of loads show. */
export function loadCells(results: Measured[]): Record<string, Cell> {
  const spread = (pick: (result: Measured) => number): Spread => spreadOf(results.map(pick));
  const programs = Object.keys(results[0]?.cpu ?? {});
  const cpu = programs.map((name) => `${name} ${cpuOf(results, name)}`);
  return {
    'a second': spread((result) => result.rate),
    'p50 ms': spread((result) => result.p50),
    'p99 ms': spread((result) => result.p99),
    'other answers': failuresOf(results),
    'CPU µs a request': cpu.join(', '),
    'cores busy': spread((result) => result.busyCores),
  };
}

function cpuOf(results: Measured[], program: string): string {
  const { median } = spreadOf(results.map((result) => result.cpu[program] ?? Number.NaN));
  return Number.isFinite(median) ? median.toFixed(0) : '-';
}

function failuresOf(results: Measured[]): string {
  const sums = new Map<string, number>();
  for (const { failures } of results) {
    for (const [status, count] of Object.entries(failures)) sums.set(status, (sums.get(status) ?? 0) + count);
  }
  return Array.from(sums, ([status, count]) => `${count} × ${status}`).join(', ') || 'none';
}

export const rates = (results: Measured[]): number[] => results.map(({ rate }) => rate);

function ownCpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function machineSeconds(): { busy: number; all: number } {
  const sums = { busy: 0, all: 0 };
  for (const { times } of cpus()) {
    const all = times.user + times.nice + times.sys + times.idle + times.irq;
    sums.all += all;
    sums.busy += all - times.idle;
  }
  return sums;
}
