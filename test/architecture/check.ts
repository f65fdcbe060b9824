import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Import, readImports } from './imports.ts';
import { mayImport, packageHomes } from './rules.ts';

/** What breaks the rules in the tree, one sentence each. */
export function findViolations(root: string): string[] {
  const imports = readImports(root, ['src', 'simulators', 'salesforce', 'console']);
  return [
    ...[...Map.groupBy(imports, ({ from }) => from)].flatMap(([from, ofFile]) => {
      const area = areaOf(from);
      return ofFile.flatMap((one) => checkImport(one, area));
    }),
    ...findRings('folders', imports, siblingFolders),
    ...findRings('files', imports, (from, to) => [from, to]),
    ...globSync('src/**/*.ts', { cwd: root })
      .filter((file) => readsClock(readFileSync(join(root, file), 'utf8')))
      .map((file) => `${file} reads the clock by new Date(): use wallMs of src/platform/base/chance.ts`),
    ...globSync('{src,simulation}/**/*.ts', { cwd: root }).flatMap((file) =>
      emptyBeginnings(readFileSync(join(root, file), 'utf8')).map(
        (words) =>
          `${file} has a docstring that begins with "${words}": begin with a noun or verb of the domain`,
      ),
    ),
  ];
}

function emptyBeginnings(code: string): string[] {
  const docstrings = code.matchAll(/\/\*\*[\s*]*(Of|The same|One of|One that|Those|What)\b/g);
  return [...docstrings].map(([, words = '']) => words);
}

/** Whether the code has a `new Date()`, which no rule of lint can forbid. */
function readsClock(code: string): boolean {
  return /\b(new )?Date\(\)/.test(code);
}

function checkImport({ from, to, isPackage }: Import, area: string | undefined): string[] {
  if (to === undefined) return [`${from} computes the name of an import: nobody can follow it`];
  const isRight = isPackage ? isPackageAllowed(from, to) : isFileAllowed(area, to);
  return isRight ? [] : [`${from} may not import ${to}`];
}

function isPackageAllowed(from: string, name: string): boolean {
  // The checks of the Salesforce package are tools for developers.
  if (isIn(from, 'salesforce')) return true;
  return packageHomes[name]?.some((home) => isIn(from, home)) ?? false;
}

function isFileAllowed(area: string | undefined, to: string): boolean {
  if (area === undefined) return false;
  return isIn(to, area) || (mayImport[area] ?? []).some((allowed) => isIn(to, allowed));
}

/** The row of the table that a file falls under. */
function areaOf(file: string): string | undefined {
  return Object.keys(mayImport).find((area) => isIn(file, area));
}

function isIn(file: string, area: string): boolean {
  return file === area || file.startsWith(`${area}/`);
}

/** Rings of imports between what `ends` names for each of them, such as the files themselves. */
function findRings(
  what: 'files' | 'folders',
  imports: readonly Import[],
  ends: (from: string, to: string) => [string, string] | undefined,
): string[] {
  const edges = new Map<string, Set<string>>();
  for (const { from, to, isPackage } of imports) {
    const pair = to === undefined || isPackage ? undefined : ends(from, to);
    if (pair !== undefined) edges.set(pair[0], (edges.get(pair[0]) ?? new Set()).add(pair[1]));
  }
  leaveEnds(edges);
  const rings = [...edges.keys()].flatMap((start) => {
    const path = pathBackTo(start, edges);
    // A ring is found from each of its parts; the one whose name comes first reports it.
    return path === undefined || path.some((part) => part < start) ? [] : [[...path, start].join(' → ')];
  });
  return rings.map((ring) => `the ${what} import each other in a ring: ${ring}`);
}

/** Takes out what leads nowhere until none is left, since no ring has it. */
function leaveEnds(edges: Map<string, Set<string>>): void {
  let before: number;
  do {
    before = edges.size;
    for (const [from, targets] of edges) {
      for (const to of targets) if (!edges.has(to)) targets.delete(to);
      if (targets.size === 0) edges.delete(from);
    }
  } while (edges.size < before);
}

/** The two folders side by side in which the paths part, at any depth; undefined where a file lies at that point. */
function siblingFolders(from: string, to: string): [string, string] | undefined {
  const [a, b] = [from.split('/'), to.split('/')];
  const depth = a.findIndex((part, i) => part !== b[i]) + 1;
  if (depth === 0 || a.length <= depth || b.length <= depth) return undefined;
  return [a.slice(0, depth).join('/'), b.slice(0, depth).join('/')];
}

/** The shortest way from a folder or file back to itself, beginning with it. */
function pathBackTo(start: string, edges: ReadonlyMap<string, ReadonlySet<string>>): string[] | undefined {
  const visited = new Set<string>();
  const paths = [[start]];
  for (const path of paths) {
    for (const next of edges.get(path.at(-1) ?? '') ?? []) {
      if (next === start) return path;
      if (!visited.has(next)) paths.push([...path, next]);
      visited.add(next);
    }
  }
  return undefined;
}
