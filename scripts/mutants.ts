import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { readImports } from '../test/architecture/imports.ts';
import { globalSetup, globalTeardown } from '../test/support/global-setup.ts';
import { changedFiles } from './changed-files.ts';
import { type Mutant, mutantsOf } from './mutations.ts';
import { findTests } from './unit-tests.ts';

/*
 * Changes one operator at a time in files of src, and runs the tests closest to the file: where they all pass nothing tests that
 * operator. Files are those named, else those that have changed since the branch left main, else those of the folders whose
 * faults cost most. Of many mutants some are chosen, the same ones for one seed; none is tried once the minutes are over.
 */

const root = join(import.meta.dirname, '..');
const folders = [
  ...['src/api/idempotency', 'src/identity/consumers', 'src/features/events', 'src/features/handoff'],
  ...['src/crm/batching', 'src/crm/scheduling', 'src/crm/budget'],
];
/** Of those that do not change what anybody can see, as a run prints them. */
const harmless = new Set(readFileSync(join(root, 'scripts/harmless-mutants.txt'), 'utf8').split('\n'));
/** The goal is nine of ten: to be raised as tests are written. A run tries so few that chance decides much. */
const leastKilled = 0.7;
/** A test that waits for what no longer happens has found the mutant too. */
const timeoutMs = 240_000;

const { values, positionals } = parseArgs({
  options: {
    count: { type: 'string', default: '60' },
    minutes: { type: 'string', default: '6' },
    seed: { type: 'string', default: '1' },
  },
  allowPositionals: true,
});
const files = chooseFiles();
const importers = Map.groupBy(readImports(root, ['test']), ({ to }) => to);
const chosen = files
  .flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')))
  .filter((mutant) => !harmless.has(mutant.name))
  .toSorted((a, b) => rank(a).localeCompare(rank(b)))
  .slice(0, Number(values.count));

const folder = mkdtempSync(join(tmpdir(), 'handoff-mutants-'));
await globalSetup();
try {
  await runAll();
} finally {
  await globalTeardown();
  rmSync(folder, { recursive: true });
}

async function runAll(): Promise<void> {
  const survivors: string[] = [];
  const waiting = [...chosen];
  const end = performance.now() + Number(values.minutes) * 60_000;
  let tried = 0;
  const work = async () => {
    while (performance.now() < end) {
      const mutant = waiting.shift();
      if (mutant === undefined) return;
      const isKilled = !(await passes(mutant));
      tried += 1;
      if (!isKilled) survivors.push(mutant.name);
      console.log(`${isKilled ? 'killed' : 'ALIVE '} ${mutant.name}`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  const killed = tried - survivors.length;
  console.log(
    `\n${killed} of ${tried} mutants were killed (--seed ${values.seed}); of ${chosen.length} there was no time for ${waiting.length}.`,
  );
  if (survivors.length > 0) console.log(`Alive:\n${survivors.toSorted().join('\n')}`);
  process.exitCode = killed >= tried * leastKilled ? 0 : 1;
}

function chooseFiles(): string[] {
  if (positionals.length > 0) return positionals;
  const isCode = (file: string) => /^src\/.*\.ts$/.test(file) && !/\/(migrations|settings)\b/.test(file);
  const changed = [...(changedFiles() ?? [])].filter(isCode);
  if (changed.length > 0) return globSync(changed, { cwd: root });
  return globSync(
    folders.map((one) => `${one}/**/*.ts`),
    { cwd: root },
  ).filter(isCode);
}

function rank({ name }: Mutant): string {
  return createHash('sha256').update(`${values.seed} ${name}`).digest('hex');
}

/**
 * The test of that name, those that import the file, those of its folder, and then all of its feature or layer; none that starts
 * processes or a browser.
 */
function testsOf(file: string): string[] {
  const mirror = `test/${dirname(file).slice('src/'.length)}/`;
  const [, around = ''] = /^src\/((?:features\/|api\/)?[^/]+)\//.exec(file) ?? [];
  const direct = new Set((importers.get(file) ?? []).map(({ from }) => from));
  // Credentials and permissions are tried where an administrator changes them.
  const further = around === 'identity' ? 'test/features/consumer-admin/' : mirror;
  const near = findTests().filter(
    (test) =>
      (direct.has(test) || test.startsWith(`test/${around}/`) || test.startsWith(further)) &&
      !/\/(faults|console)\//.test(test),
  );
  const name = `${basename(file, '.ts')}.test.ts`;
  const distance = (test: string) =>
    basename(test) === name ? 0 : direct.has(test) ? 1 : test.startsWith(mirror) ? 2 : 3;
  return near.toSorted((a, b) => distance(a) - distance(b));
}

/** Whether all tests pass with the mutant: up to the first that fails. */
async function passes(mutant: Mutant): Promise<boolean> {
  const group = join(folder, `${rank(mutant)}.mjs`);
  const suites = testsOf(mutant.file).map(
    (test) =>
      `describe('${test}', async () => {\n  await import('${pathToFileURL(join(root, test)).href}');\n});\n`,
  );
  writeFileSync(group, `import { describe } from 'node:test';\n\n${suites.join('')}`);
  const hook = pathToFileURL(join(import.meta.dirname, 'mutate.ts')).href;
  const child = spawn(
    process.execPath,
    ['--import', hook, '--test-reporter=tap', '--test-force-exit', group],
    {
      cwd: root,
      env: { ...process.env, MUTANT: JSON.stringify(mutant) },
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  return endOf(child);
}

function endOf(child: ChildProcess): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      if (/^\s*not ok /.test(line)) child.kill('SIGKILL');
    });
    child.once('exit', (code) => {
      clearTimeout(timer);
      resolve(code === 0);
    });
  });
}
