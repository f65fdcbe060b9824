import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { runChild } from './run-child.js';

const root = join(import.meta.dirname, '..');
const tests = join(root, 'test');

/** What starts a program, the service, a simulator, a browser or a database. */
const starts = /'node:child_process'|\/app\.ts'|\/store\/pglite\.ts'|\/simulators\/|'playwright-core'/;
/** The architecture holds such names in texts, and starts nothing. */
const others = ['test/architecture/architecture.test.ts'];

/** Paths of the test files that start nothing, neither by themselves nor by what they import from `test`. */
export function findUnitTests(): string[] {
  const files = globSync('**/*.test.ts', { cwd: tests }).map((file) => join(tests, file));
  const found = files.filter((file) => !reaches(file, new Set())).map((file) => relative(root, file));
  return [...others, ...found].sort();
}

function reaches(file: string, seen: Set<string>): boolean {
  if (seen.has(file)) return false;
  seen.add(file);
  const code = readFileSync(file, 'utf8');
  if (starts.test(code)) return true;
  return Array.from(code.matchAll(/ from '(\.[^']+)'/g), ([, path = '']) => resolve(dirname(file), path))
    .filter((path) => path.startsWith(`${tests}/`))
    .some((path) => reaches(path, seen));
}

if (import.meta.main) {
  const NODE_COMPILE_CACHE = join(root, 'node_modules/.cache/compile-tests');
  const options = ['--test-concurrency=3', '--test-timeout=60000', '--test-reporter=dot'];
  const args = ['--test', ...options, ...findUnitTests()];
  process.exitCode = await runChild(process.execPath, args, {
    cwd: root,
    env: { NODE_COMPILE_CACHE, ...process.env },
  });
}
