import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripTypes } from './strip-types.ts';

/** One file as a browser gets it. */
export interface ConsoleFile {
  contentType: string;
  text: string;
}

/** Everything that the console's page loads, and the page. */
export interface ConsoleFiles {
  /** Hash of all files: it stands in their addresses, so that a browser may keep them for ever. */
  version: string;
  page: ConsoleFile & { contentSecurityPolicy: string };
  /** By path below the version, such as `main.ts`. */
  files: ReadonlyMap<string, ConsoleFile>;
}

const folder = fileURLToPath(new URL('../../../console/', import.meta.url));
/** A file of results to try the hand-off with. */
const samples = 'samples.json';

/** The packages that the console's modules import. */
const libraries: Record<string, string> = {
  preact: import.meta.resolve('preact'),
  'preact/hooks': import.meta.resolve('preact/hooks'),
  htm: import.meta.resolve('htm'),
};

/** The console calls the service with the package that partners have. */
const client = {
  name: '@handoff-gateway/client',
  folder: fileURLToPath(new URL('../../../client/src/', import.meta.url)),
};

const contentTypes: Record<string, string> = {
  // Browsers take no module of the type that tables of types give for `.ts`.
  '.ts': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
};

interface PageOptions {
  /** Without them the page offers no results of its own. */
  hasSamples: boolean;
  /** Of the pages that may pass it results. */
  resultOrigins: readonly string[];
}

/** Reads the console's files and strips their types. */
export async function readConsoleFiles(options: PageOptions): Promise<ConsoleFiles> {
  const { hasSamples } = options;
  const files = new Map<string, ConsoleFile>();
  for (const path of await listFiles(folder)) {
    const contentType = contentTypes[extname(path)];
    if (contentType === undefined || path === 'tsconfig.json' || (path === samples && !hasSamples)) continue;
    const text = await readFile(join(folder, path), 'utf8');
    files.set(path, { contentType, text: path.endsWith('.ts') ? toScript(text) : text });
  }
  for (const path of await listFiles(client.folder)) {
    const text = toScript(await readFile(join(client.folder, path), 'utf8'));
    // What has types only is nothing now.
    if (/^export /m.test(text))
      files.set(`client/${path}`, { contentType: contentTypes['.ts'] as string, text });
  }
  for (const [name, url] of Object.entries(libraries)) {
    const text = await readFile(fileURLToPath(url), 'utf8');
    files.set(libraryPath(name), {
      contentType: 'text/javascript; charset=utf-8',
      text: withoutSourceMap(text),
    });
  }
  const version = hashOf([...files].flatMap(([path, { text }]) => [path, text])).slice(0, 16);
  return { version, page: makePage(version, [...files.keys()], options), files };
}

/** A module as JavaScript. What only people read is left out, line for line: it is an eighth of all that is sent. */
function toScript(code: string): string {
  const commentLines = /^[ \t]*(?:\/\*(?:(?!\*\/)[^])*\*\/|\/\/.*)[ \t]*$/gm;
  return stripTypes(code)
    .replace(commentLines, (comment) => comment.replace(/[^\n]+/g, ''))
    .replace(/[ \t]+$/gm, '');
}

async function listFiles(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replaceAll('\\', '/'))
    .sort();
}

function libraryPath(name: string): string {
  return `libraries/${name.replace('/', '-')}.js`;
}

/** The map is not served: a browser's tools would ask for it in vain. */
function withoutSourceMap(code: string): string {
  return code.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, '\n');
}

function makePage(
  version: string,
  paths: string[],
  { hasSamples, resultOrigins }: PageOptions,
): ConsoleFiles['page'] {
  const address = (path: string) => `/console/files/${version}/${path}`;
  const imports = {
    ...Object.fromEntries(Object.keys(libraries).map((name) => [name, address(libraryPath(name))])),
    [client.name]: address('client/index.ts'),
  };
  const importMap = JSON.stringify({ imports });
  const modules = paths.filter((path) => /\.(ts|js)$/.test(path));
  // No origin has a character that would have to be escaped: the settings are checked.
  const data = [
    ...(hasSamples ? [` data-samples="${address(samples)}"`] : []),
    ...(resultOrigins.length > 0 ? [` data-result-origins="${resultOrigins.join(' ')}"`] : []),
  ];
  const text = [
    '<!doctype html>',
    `<html lang="en"${data.join('')}>`,
    '<head>',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Handoff Gateway</title>',
    `<link rel="icon" href="${address('icon.svg')}">`,
    `<link rel="stylesheet" href="${address('styles.css')}">`,
    `<script type="importmap">${importMap}</script>`,
    // Without these the browser would find each module only when it has read the one that imports it.
    ...modules.map((path) => `<link rel="modulepreload" href="${address(path)}">`),
    `<script type="module" src="${address('main.ts')}"></script>`,
    '</head>',
    // Stays where a module is missing: while versions change, its page and its files may be of two.
    '<body><div id="console"><main><p>Loading… If this stays, load the page again.</p></main></div><noscript>The console needs JavaScript.</noscript></body>',
    '</html>',
    '',
  ].join('\n');
  const contentSecurityPolicy = [
    "default-src 'none'",
    `script-src 'self' 'sha256-${createHash('sha256').update(importMap).digest('base64')}'`,
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
  return { contentType: 'text/html; charset=utf-8', text, contentSecurityPolicy };
}

function hashOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
