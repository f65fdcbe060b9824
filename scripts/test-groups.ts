import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = join(import.meta.dirname, '..');
const groupsDir = join(root, 'node_modules/.cache/test-groups');

/** Take as long as a group, or measure the process that they run in. */
const alone = /^test\/(api\/(odd-parameters|fuzz)|architecture\/features|gates\/|bench\/|simulation\/)/;
/** Wait for processes of their own most of the time. */
const processes = /\/(gateway-process|cluster|browser|reservation-harness|replicas)\.ts'/;
/** Small enough that none is left running alone at the end. */
const filesPerGroup = 10;

/**
 * Divides test files into groups, each to run in one process, and others, each to run alone: to load the service takes a second
 * of processor time, and so does the first start in a process. A group is written as a module that imports its files, each in a
 * suite of its own, which bounds its hooks; paths are from the root.
 */
export function writeGroups(files: readonly string[]): { groups: string[]; others: string[] } {
  const canShare = (file: string) => !alone.test(file) && !startsProcesses(file);
  rmSync(groupsDir, { recursive: true, force: true });
  mkdirSync(groupsDir, { recursive: true });
  const groups = chunksOf(files.filter(canShare)).map((chunk, i) => writeGroup(`group-${i + 1}.mjs`, chunk));
  return { groups, others: files.filter((file) => !canShare(file)) };
}

export function startsProcesses(file: string): boolean {
  return processes.test(readFileSync(join(root, file), 'utf8'));
}

function chunksOf(files: readonly string[]): string[][] {
  const count = Math.ceil(files.length / filesPerGroup);
  return Array.from({ length: count }, (_, i) => files.filter((_file, at) => at % count === i));
}

function writeGroup(name: string, files: readonly string[]): string {
  const path = join(groupsDir, name);
  const suites = files.map(
    (file) =>
      `describe('${file}', async () => {\n  let note;\n  before(() => (note = startTimes('${file}')));\n  after(() => note());\n  await import('${pathToFileURL(join(root, file)).href}');\n});\n`,
  );
  writeFileSync(
    path,
    `import { after, before, describe } from 'node:test';\nimport { startTimes } from '${pathToFileURL(join(import.meta.dirname, 'test-times.ts')).href}';\n\n${suites.join('')}`,
  );
  return relative(root, path);
}
