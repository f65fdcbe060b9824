import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { type EventData, run } from 'node:test';
import { spec } from 'node:test/reporters';
import { killStartedWith } from './process-tree.ts';
import { collectFailures, type Totals } from './test-report.ts';
import { type FileTimes, timesVariable } from './test-times.ts';

export interface RunOptions {
  /** Paths of the test files are relative to it. */
  root: string;
  concurrency: number;
  /** For each test; a file gets a little more. */
  timeoutMs: number;
  /** For the whole run: a file that still runs then is killed, and one that hasn't begun fails. */
  limitMs: number;
  /** Whether the file may fail by chance: such a one runs once more, alone, when all others have ended. */
  mayTryAgain: (file: string) => boolean;
  signal: AbortSignal;
  /** Takes what each file has printed, as it ends. */
  print: (text: string) => void;
}

interface Outcome {
  file: string;
  counts: EventData.TestSummary['counts'] | undefined;
  failures: string[];
}

/** What a file may take, by what one of its tests may. */
const fileShare = 1.1;

/** Runs each file in a process of its own. */
export async function runTests(files: readonly string[], options: RunOptions): Promise<Totals> {
  const folder = mkdtempSync(join(tmpdir(), 'handoff-tests-'));
  const notes = join(folder, 'times');
  appendFileSync(notes, '');
  process.env[timesVariable] = notes;
  const endsAt = performance.now() + options.limitMs;
  const first = await runAll(files, options, endsAt);
  const mayTryAgain = ({ file, failures }: Outcome) => failures.length > 0 && options.mayTryAgain(file);
  const again = performance.now() < endsAt ? first.filter(mayTryAgain) : [];
  if (again.length > 0) options.print(`\nOnce more, alone: ${again.map(({ file }) => file).join(', ')}\n`);
  const second = await runAll(
    again.map(({ file }) => file),
    { ...options, concurrency: 1 },
    endsAt,
  );
  const outcomes = [...first.filter((outcome) => !again.includes(outcome)), ...second];
  const times = readFileSync(notes, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as FileTimes);
  rmSync(folder, { recursive: true });
  const sum = (name: keyof Totals['counts']) =>
    outcomes.reduce((total, { counts }) => total + (counts?.[name] ?? 0), 0);
  return {
    counts: { tests: sum('tests'), passed: sum('passed'), skipped: sum('skipped') },
    secondTries: second.filter(({ failures }) => failures.length === 0).map(({ file }) => file),
    failures: outcomes.flatMap(({ failures }) => failures),
    times: times.toSorted((a, b) => b.cpuSeconds - a.cpuSeconds),
  };
}

async function runAll(files: readonly string[], options: RunOptions, endsAt: number): Promise<Outcome[]> {
  const waiting = [...files];
  const outcomes: Outcome[] = [];
  const work = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift())
      outcomes.push(await runFile(file, options, endsAt));
  };
  await Promise.all(Array.from({ length: options.concurrency }, work));
  return outcomes;
}

async function runFile(
  file: string,
  { root, timeoutMs, limitMs: runMs, signal, print }: RunOptions,
  endsAt: number,
): Promise<Outcome> {
  const leftMs = endsAt - performance.now();
  if (leftMs <= 0) {
    const why = `not begun, since the run's ${Math.round(runMs / 1000)} s are over`;
    return { file, counts: undefined, failures: [`  ${file}: ${why}`] };
  }
  const limitMs = Math.min(timeoutMs * fileShare, leftMs);
  const results = run({
    cwd: root,
    files: [join(root, file)],
    // A test that hangs fails with its name, unless the whole run ends before.
    timeout: timeoutMs,
    // A test that timed out may go on for ever: without it, its file would hold up the whole run.
    execArgv: ['--test-force-exit', '--import', join(import.meta.dirname, 'test-times.ts')],
    signal,
  });
  const failures = collectFailures(results, { root, file });
  const timer = setTimeout(() => {
    if (killStartedWith(join(root, file)))
      failures.push(`  ${file}: killed with all that it had started after ${Math.round(limitMs / 1000)} s`);
  }, limitMs);
  let summary: EventData.TestSummary | undefined;
  results.on('test:summary', (data) => {
    // The other ones are those of the file itself, which lack what ended it.
    if (data.file === undefined) summary = data;
  });
  const lines = Readable.from(withoutTotals(results)).compose(spec) as Readable;
  print((await lines.toArray()).join(''));
  clearTimeout(timer);
  if (failures.length === 0 && summary?.success !== true) failures.push(`  ${file}: it did not end`);
  return { file, counts: summary?.counts, failures };
}

const total = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

/** Those of one file would be lost among the others. */
async function* withoutTotals(events: AsyncIterable<unknown>) {
  for await (const one of events) {
    const event = one as { type: string; data: object };
    const { nesting, message } = event.data as Partial<EventData.TestDiagnostic>;
    if (event.type !== 'test:diagnostic' || nesting !== 0 || !total.test(message ?? '')) yield event;
  }
}
