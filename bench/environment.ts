import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem, type } from 'node:os';
import { pathTo } from './harness.ts';

/** What a reader must know to compare a run with another. */
export function describeEnvironment(
  stores: Iterable<string>,
  { rounds, seconds }: { rounds: number; seconds: number },
): Record<string, string> {
  const all = cpus();
  const gib = (totalmem() / 2 ** 30).toFixed(0);
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: commit(),
    machine: `${all.length} cores (${all[0]?.model.trim() ?? 'unknown'}), ${gib} GiB, ${type()} ${release()}`,
    'Node.js': process.version,
    stores: [...stores].join('; ') || 'none',
    measurement: `${rounds} rounds of ${seconds} s after one to warm up; median (least–most)`,
  };
}

function commit(): string {
  try {
    const git = (...args: string[]) =>
      execFileSync('git', args, { cwd: pathTo('.'), encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    const changed = git('status', '--porcelain', '--untracked-files=no', '--', 'src', 'simulators', 'bench');
    return git('rev-parse', '--short', 'HEAD').trim() + (changed ? ', with changes' : '');
  } catch {
    return 'unknown';
  }
}
