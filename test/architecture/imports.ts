import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import {
  type EcmaScriptModule,
  type Expression,
  type Program,
  parseSync,
  type StringLiteral,
  Visitor,
} from 'oxc-parser';

/** One import, whatever its form: of values or types, static or dynamic, or a reference by URL. */
export interface Import {
  /** Path from the root of the tree, with forward slashes. */
  from: string;
  /** Path of the imported file from the root, or the name of a package. Undefined for one computed when it runs. */
  to: string | undefined;
  isPackage: boolean;
}

/** Every import in the TypeScript and JavaScript files of the folders, but those of Node's own modules. */
export function readImports(root: string, folders: readonly string[]): Import[] {
  const patterns = folders.map((folder) => `${folder}/**/*.{ts,tsx,js}`);
  const files = globSync(patterns, { cwd: root, exclude: ['**/node_modules/**', '**/dist/**'] }).sort();
  return files.flatMap((file) => {
    const found = specifiersIn(file, readFileSync(join(root, file), 'utf8'));
    return found
      .filter((specifier) => !specifier?.startsWith('node:'))
      .map((specifier) => toImport(file, specifier));
  });
}

function toImport(from: string, specifier: string | undefined): Import {
  if (specifier === undefined) return { from, to: undefined, isPackage: false };
  if (specifier.startsWith('.')) {
    return { from, to: posix.join(posix.dirname(from), specifier), isPackage: false };
  }
  const parts = specifier.split('/');
  return { from, to: parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/'), isPackage: true };
}

/** What the code names in its imports; undefined for what is computed. Throws when the code can't be parsed. */
function specifiersIn(file: string, code: string): (string | undefined)[] {
  const parsed = parseSync(file, code);
  if (parsed.errors[0] !== undefined) throw new Error(`${file}: ${parsed.errors[0].message}`);
  const { module } = parsed;
  // The tree of the whole code takes many times the work, and few files need it.
  return importsOnlyAtTop(module, code)
    ? module.staticImports.map(({ moduleRequest }) => moduleRequest.value)
    : specifiersInTree(parsed.program);
}

/** Whether each word that could import something belongs to a static import. */
function importsOnlyAtTop({ staticImports, staticExports }: EcmaScriptModule, code: string): boolean {
  const words = code.match(/\b(?:import|require|URL)\b|\bexport\s*(?:type\s*)?\{[^}]*\}\s*from\b/g) ?? [];
  const passesOn = staticExports.some(({ entries }) =>
    entries.every(({ moduleRequest }) => moduleRequest !== null),
  );
  return words.length === staticImports.length && !passesOn;
}

function specifiersInTree(program: Program): (string | undefined)[] {
  const found: (string | undefined)[] = [];
  const add = (source: StringLiteral | null) => {
    if (source !== null) found.push(source.value);
  };
  new Visitor({
    ImportDeclaration: ({ source }) => add(source),
    ExportAllDeclaration: ({ source }) => add(source),
    ExportNamedDeclaration: ({ source }) => add(source),
    TSImportType: ({ source }) => add(source),
    TSExternalModuleReference: ({ expression }) => add(expression),
    ImportExpression: ({ source }) => void found.push(textOf(source)),
    CallExpression: ({ callee, arguments: [first] }) => {
      if (isLoader(callee) && first !== undefined) found.push(textOf(first));
    },
    // A worker or a child process is started by the URL of its file.
    NewExpression: ({ callee, arguments: [first] }) => {
      const url = callee.type === 'Identifier' && callee.name === 'URL' && first ? textOf(first) : undefined;
      if (url !== undefined && /^\..*\.[jt]s$/.test(url)) found.push(url);
    },
  }).visit(program);
  return found;
}

function isLoader(callee: Expression): boolean {
  if (callee.type === 'Identifier') return callee.name === 'require';
  return (
    callee.type === 'MemberExpression' &&
    callee.object.type === 'MetaProperty' &&
    callee.property.type === 'Identifier' &&
    callee.property.name === 'resolve'
  );
}

function textOf(node: { type: string; value?: unknown; quasis?: { value: { cooked: string | null } }[] }) {
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value;
  if (node.type === 'TemplateLiteral' && node.quasis?.length === 1)
    return node.quasis[0]?.value.cooked ?? undefined;
  return undefined;
}
