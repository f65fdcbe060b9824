import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import Value from 'typebox/value';
import { type Document, isNode, LineCounter, parseDocument } from 'yaml';
import { type Built, buildOrg } from './build-org.ts';
import { type DescriptionFault, type OrgDescription, orgDescription } from './description.ts';
import { mergePatch } from './merge-patch.ts';
import { describePackage } from './package-schema.ts';

const ORGS = fileURLToPath(new URL('../orgs', import.meta.url));

/** All that is wrong with a description, a line each. */
class DescriptionError extends Error {
  /** As the control API answers it. */
  readonly status = 400;
}

/** The file of a description that is named, or given as a path. @throws DescriptionError where there is none. */
export function descriptionFile(nameOrFile: string): string {
  const file = /^[\w-]+$/.test(nameOrFile) ? resolve(ORGS, `${nameOrFile}.yaml`) : resolve(nameOrFile);
  if (existsSync(file)) return file;
  throw new DescriptionError(`${file}: there is no such description of an org`);
}

function structureFaults(description: unknown): DescriptionFault[] {
  const faults = new Map<string, DescriptionFault>();
  for (const error of Value.Errors(orgDescription, description)) {
    const path = error.instancePath.split('/').slice(1);
    // Of an unknown member only the member itself is shown, of a value with alternatives the first.
    if (error.keyword === 'additionalProperties' || faults.has(error.instancePath)) continue;
    faults.set(error.instancePath, { path, message: messageOf(error) });
  }
  return [...faults.values()];
}

function messageOf(error: { keyword: string; message: string; params: object }): string {
  if (error.keyword === 'boolean') return 'is unknown here';
  if (error.keyword !== 'enum') return error.message;
  return `must be one of ${(error.params as { allowedValues: string[] }).allowedValues.join(', ')}`;
}

/** @throws DescriptionError naming every fault, by `where`. */
function check(description: unknown, where: (fault: DescriptionFault) => string): Built {
  const structure = structureFaults(description);
  const { built, faults } =
    structure.length > 0 ? { built: undefined, faults: structure } : buildOrg(description as OrgDescription);
  if (built !== undefined && faults.length === 0) return built;
  throw new DescriptionError(faults.map((fault) => `${where(fault)} ${fault.message}`).join('\n'));
}

/** The org of a description that is no file. @throws DescriptionError naming members. */
export function checkDescription(description: unknown): Built {
  return check(description, ({ path }) => path.join('.') || 'the description');
}

/** The position of what a fault is about, or of the nearest thing around it: `12:5`. */
function positionOf(document: Document, lines: LineCounter, path: readonly string[]): string {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    if (!isNode(node) || !node.range) continue;
    const { line, col } = lines.linePos(node.range[0]);
    return `${line}:${col}`;
  }
  return '1:1';
}

interface Parsed {
  document: Document;
  lines: LineCounter;
}

/** By their text: a process that starts many orgs reads the same files again and again. */
const parsed = new Map<string, Parsed>();

function parse(file: string): Parsed {
  const text = readFileSync(file, 'utf8');
  const known = parsed.get(text);
  if (known) return known;
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  if (document.errors.length === 0) {
    parsed.set(text, { document, lines });
    return { document, lines };
  }
  const faults = document.errors.map(({ message, linePos }) => {
    const [start] = linePos ?? [];
    return `${file}:${start?.line ?? 1}:${start?.col ?? 1}: ${message.split('\n')[0]}`;
  });
  throw new DescriptionError(faults.join('\n'));
}

/**
 * Reads a description: what every org has (`standard.yaml`), what its package declares, and then the file itself.
 * @param packageDir deployed instead of the package that the file names.
 * @throws DescriptionError with a line for each fault: file, line, column, what is wrong.
 */
export function readDescription(file: string, packageDir?: string): Built {
  const { document, lines } = parse(file);
  const own = (document.toJS() ?? {}) as OrgDescription;
  const standard = parse(resolve(ORGS, 'standard.yaml')).document.toJS() as OrgDescription;
  const deployed =
    packageDir ?? (typeof own.package === 'string' ? resolve(dirname(file), own.package) : undefined);
  const withPackage = deployed === undefined ? standard : mergePatch(standard, describePackage(deployed));
  return check(
    mergePatch(withPackage, own),
    ({ path }) => `${file}:${positionOf(document, lines, path)}: ${path.join('.')}`,
  );
}
