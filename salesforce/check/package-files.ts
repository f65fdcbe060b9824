import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { XMLParser } from 'fast-xml-parser';

/** What `sfdx-project.json` says and the checks need. */
export interface Project {
  /** The default package directory, relative to the project: what the manifest lists. */
  sourceDir: string;
  /** All package directories that are there. */
  sourceDirs: string[];
  /** For example `68.0`. */
  apiVersion: string;
}

/** A parsed element: its text, or its children, each once or repeated. Attributes start with `@`. */
export type XmlNode = string | { [name: string]: XmlNode | XmlNode[] };

/** A metadata file: its root element and what is in it. */
export interface XmlDocument {
  file: string;
  rootName: string;
  root: XmlNode;
}

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  ignoreDeclaration: true,
  parseTagValue: false,
  parseAttributeValue: false,
});

/** Reads `sfdx-project.json` of `directory`. Throws where it is missing or lacks what the checks need. */
export function readProject(directory: string): Project {
  const project = JSON.parse(readFileSync(join(directory, 'sfdx-project.json'), 'utf8')) as {
    packageDirectories?: { path?: string; default?: boolean }[];
    sourceApiVersion?: string;
  };
  const sourceDir = project.packageDirectories?.find((entry) => entry.default)?.path;
  if (!sourceDir || !project.sourceApiVersion) {
    throw new Error('sfdx-project.json needs a default package directory and a sourceApiVersion.');
  }
  const sourceDirs = (project.packageDirectories ?? [])
    .flatMap(({ path }) => path ?? [])
    .filter((path) => existsSync(join(directory, path)));
  return { sourceDir, sourceDirs, apiVersion: project.sourceApiVersion };
}

/** All files under `directory`, relative to it, with `/`. Names that start with a dot are left out, as the CLI does. */
export function listFiles(directory: string, under = '.'): string[] {
  return readdirSync(join(directory, under), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => toPosix(relative(directory, join(entry.parentPath, entry.name))))
    .filter((file) => !file.split('/').some((part) => part.startsWith('.')))
    .sort();
}

function toPosix(path: string): string {
  return path.split(sep).join('/');
}

/** The XML files of the package, its templates and its manifest. */
export function listXmlFiles(directory: string): string[] {
  return listFiles(directory).filter((file) => file.endsWith('.xml'));
}

/** Parses one XML text. The result means something only for text that is well-formed. */
export function parseXml(text: string): { [name: string]: XmlNode | XmlNode[] } {
  return parser.parse(text) as { [name: string]: XmlNode | XmlNode[] };
}

/** Parses the given files. One that is not well-formed is left out: another check reports it. */
export function readDocuments(directory: string, files: string[]): XmlDocument[] {
  return files.flatMap((file) => {
    try {
      const roots = Object.entries(parseXml(readFileSync(join(directory, file), 'utf8')));
      const [rootName, root] = roots[0] ?? [];
      if (roots.length !== 1 || rootName === undefined || root === undefined || Array.isArray(root))
        return [];
      return [{ file, rootName, root }];
    } catch {
      return [];
    }
  });
}

/** The children of `node` named `name`, however many there are. */
export function children(node: XmlNode | undefined, name: string): XmlNode[] {
  if (node === undefined || typeof node === 'string') return [];
  const value = node[name];
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

/** The text of the first child named `name`; undefined where there is none. */
export function childText(node: XmlNode | undefined, name: string): string | undefined {
  const [value] = children(node, name);
  return typeof value === 'string' ? value : undefined;
}
