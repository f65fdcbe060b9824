import { appendFileSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/*
 * Preloaded into each process of the tests: notes what its files took, with the programs that they started and that have ended.
 */

/** Names the file that takes a line of JSON for each test file. */
export const timesVariable = 'TEST_TIMES';

export interface FileTimes {
  /** From the root; what a group takes beside its files is that of the group. */
  file: string;
  cpuSeconds: number;
  wallSeconds: number;
}

type Times = Omit<FileTimes, 'file'>;

const noted: Times = { cpuSeconds: 0, wallSeconds: 0 };

/**
 * Returns what notes the time that `file` has taken since: the groups call it.
 *
 * @public
 */
export function startTimes(file: string): () => void {
  const from = timesNow();
  return () => note(file, from);
}

function note(file: string, from: Times): void {
  const path = process.env[timesVariable];
  const now = timesNow();
  const times = {
    cpuSeconds: now.cpuSeconds - from.cpuSeconds,
    wallSeconds: now.wallSeconds - from.wallSeconds,
  };
  noted.cpuSeconds += times.cpuSeconds;
  noted.wallSeconds += times.wallSeconds;
  if (path !== undefined) appendFileSync(path, `${JSON.stringify({ file, ...times })}\n`);
}

function timesNow(): Times {
  const { user, system } = process.cpuUsage();
  return { cpuSeconds: (user + system) / 1e6 + endedPrograms(), wallSeconds: performance.now() / 1000 };
}

/** Seconds; 0 where the system tells no such thing. */
function endedPrograms(): number {
  if (process.platform !== 'linux') return 0;
  // `cutime` and `cstime` of proc(5), in hundredths of a second, behind the name in parentheses.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[13]) + Number(fields[14])) / 100;
}

const [, main = ''] = process.argv;
// Forks of a test have its arguments.
if (isMainThread && /(\.test|unit-tests|group-\d+)\.(ts|mjs)$/.test(main))
  process.on('exit', () => note(relative(process.cwd(), main), noted));
