import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = join(import.meta.dirname, '..');
const groupsDir = join(root, 'node_modules/.cache/test-groups');

/** Folders whose files start the service in their own process; to load it takes a second of processor time. */
const inProcess = /^test\/(api|features\/(?!console\/)[^/]+(\/api)?)\/[^/]+$/;
/** The API, or a feature. */
const folder = /^test\/(api|features\/[^/]+)/;
/** Takes longer than a group. */
const long = /odd-parameters/;
/** A hook of a whole file would run for all files of its process. */
const fileHook = /^(before|beforeEach|afterEach)\(/m;
/** Small enough to end within the time limit of a file. */
const filesPerGroup = 6;

/**
 * Divides test files into groups, each to run in one process, and others, each to run alone. A group is written as a module
 * that imports its files; paths are from the root.
 */
export function writeGroups(files: readonly string[]): { groups: string[]; others: string[] } {
  const canShare = (file: string) =>
    inProcess.test(file) && !long.test(file) && !fileHook.test(readFileSync(join(root, file), 'utf8'));
  const byFolder = Object.groupBy(files.filter(canShare), (file) => folder.exec(file)?.[0] ?? '');
  rmSync(groupsDir, { recursive: true, force: true });
  mkdirSync(groupsDir, { recursive: true });
  const groups = Object.entries(byFolder).flatMap(([name, shared = []]) =>
    chunksOf(shared).map((chunk, i) => writeGroup(`${name.replaceAll('/', '-')}-${i + 1}.mjs`, chunk)),
  );
  return { groups, others: files.filter((file) => !canShare(file)) };
}

function chunksOf(files: readonly string[]): string[][] {
  const count = Math.ceil(files.length / filesPerGroup);
  return Array.from({ length: count }, (_, i) => files.filter((_file, at) => at % count === i));
}

function writeGroup(name: string, files: readonly string[]): string {
  const path = join(groupsDir, name);
  writeFileSync(
    path,
    files.map((file) => `await import('${pathToFileURL(join(root, file)).href}');\n`).join(''),
  );
  return relative(root, path);
}
