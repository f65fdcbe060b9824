import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** One started program, with all that it starts itself. */
export interface Program {
  readonly pid: number;
  /** What `ready` captured in its output. */
  readonly found: string;
  /** Used by it and by what it started, so far; NaN where the system does not say (no /proc). */
  cpuSeconds(): number;
  /** Resident memory of the program itself, without what it started; NaN where the system does not say. */
  residentMiB(): number;
  /** Asks it to stop, and kills it when it takes too long. */
  stop(): Promise<void>;
}

export interface ProgramOptions {
  args: string[];
  env?: NodeJS.ProcessEnv;
  /** What its output says when it is ready; `found` is the first group. Without it, it is ready at once. */
  ready?: RegExp;
}

/** Starts programs, each as a process of its own, and leaves nothing behind. */
export interface Processes {
  /** A temporary folder, removed at the end. */
  readonly folder: string;
  /** `command` is the path of a program. Throws with the end of its output when it ends before it is ready. */
  start(command: string, options: ProgramOptions): Promise<Program>;
  close(): Promise<void>;
}

const stopMs = 10_000;
const startMs = 120_000;

export function createProcesses(): Processes {
  const folder = mkdtempSync(join(tmpdir(), 'handoff-bench-'));
  const running = new Set<ChildProcess>();
  const abandon = () => {
    for (const child of running) child.kill('SIGTERM');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', abandon);
  let count = 0;
  return {
    folder,
    async start(command, { args, env, ready }) {
      // A file, not a pipe: reading the gateway's log would cost the load generator time.
      const output = join(folder, `output-${++count}.txt`);
      const child = spawnInto(output, command, args, { cwd: folder, env: { ...ownEnvironment(), ...env } });
      running.add(child);
      child.once('exit', () => running.delete(child));
      const found = await untilReady(child, output, ready);
      const pid = child.pid as number;
      return {
        pid,
        found,
        cpuSeconds: () => cpuSecondsOf(pid),
        residentMiB: () => residentMiBOf(pid),
        stop: () => stop(child),
      };
    },
    async close() {
      await Promise.all([...running].map(stop));
      process.off('exit', abandon);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** What the machine needs, without settings that a developer may have in the shell. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE } = process.env;
  return { PATH, HOME, ...(TMPDIR && { TMPDIR }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
}

function spawnInto(
  output: string,
  command: string,
  args: string[],
  options: { cwd: string; env: NodeJS.ProcessEnv },
): ChildProcess {
  const file = openSync(output, 'w', 0o600);
  try {
    return spawn(command, args, { ...options, stdio: ['ignore', file, file] });
  } finally {
    closeSync(file);
  }
}

async function untilReady(child: ChildProcess, output: string, ready: RegExp | undefined): Promise<string> {
  await once(child, 'spawn');
  const giveUpAt = performance.now() + startMs;
  while (ready !== undefined) {
    const text = readFileSync(output, 'utf8');
    const match = ready.exec(text);
    if (match) return match[1] ?? match[0];
    const ended = child.exitCode !== null || child.signalCode !== null;
    if (ended || performance.now() > giveUpAt) {
      await stop(child);
      throw new Error(`${child.spawnargs.join(' ')} did not get ready:\n${text.slice(-2000)}`);
    }
    await delay(10);
  }
  return '';
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const kill = setTimeout(() => child.kill('SIGKILL'), stopMs);
  await ended;
  clearTimeout(kill);
}

/** Fields of /proc/<pid>/stat after the name, which may hold spaces: proc(5). Times are in hundredths of a second. */
function readStat(pid: number | string): { parent: number; ticks: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return { parent: Number(fields[1]), ticks };
  } catch {
    return undefined;
  }
}

function cpuSecondsOf(root: number): number {
  if (readStat(root) === undefined) return Number.NaN;
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const stats = new Map(pids.map((pid) => [Number(pid), readStat(pid)]));
  let ticks = 0;
  for (const [pid, stat] of stats) {
    let at: number | undefined = pid;
    while (at !== undefined && at !== root) at = stats.get(at)?.parent;
    if (at === root) ticks += stat?.ticks ?? 0;
  }
  return ticks / 100;
}

function residentMiBOf(pid: number): number {
  try {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Number(kib) / 1024;
  } catch {
    return Number.NaN;
  }
}
