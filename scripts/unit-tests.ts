import { globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const root = join(import.meta.dirname, '..');
const tests = join(root, 'test');

/** What starts a program, the service, a simulator, a browser or a database. */
const starts =
  /'node:child_process'|\/app\.ts'|\/store\/pglite\.ts'|\/simulators\/|\/simulation\/main\.ts'|'playwright-core'/;
/** The architecture holds such names in texts, and starts nothing. */
const others = ['test/architecture/architecture.test.ts'];

/** Paths of all test files, from the root. */
export function findTests(): string[] {
  return globSync('test/**/*.test.ts', { cwd: root }).sort();
}

/** Paths of the test files that start nothing, neither by themselves nor by what they import from `test`. */
export function findUnitTests(): string[] {
  return findTests().filter((file) => others.includes(file) || !reaches(join(root, file), new Set()));
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
