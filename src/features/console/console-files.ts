import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { Problem } from '../../platform/base/problem.ts';

export interface ConsoleFile {
  contentType: string;
  text: string;
}

export interface ConsoleFiles {
  page: ConsoleFile & { contentSecurityPolicy: string };
  /** By name, such as `console-0123456789abcdef.js`: with a hash of the text, so that a browser may keep them for ever. */
  files: ReadonlyMap<string, ConsoleFile>;
}

export interface PageFacts {
  environment: string;
  version: string;
  crm_name: string;
  /** How people sign in with an account of their company; null where they cannot. */
  people: { label: string; only: boolean } | null;
  result_origins: readonly string[];
  can_break: boolean;
}

export const consolePath = '/console/';

const folder = new URL('../../../console/', import.meta.url);

const contentTypes: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Reads what `scripts/build-console.js` made. In production without what is for developers: the source map and the samples. */
export async function readConsoleFiles(production: boolean, facts: PageFacts): Promise<ConsoleFiles> {
  const files = new Map<string, ConsoleFile>();
  const add = (name: string, text: string) => {
    const [stem, ...extensions] = name.split('.');
    const named = [`${stem}-${hashOf(text)}`, ...extensions].join('.');
    files.set(named, { contentType: contentTypes[extname(name)] ?? '', text });
    return named;
  };
  const script = await readBuilt('console.js');
  const sourceMap = production
    ? ''
    : `//# sourceMappingURL=${add('console.js.map', await readBuilt('console.js.map'))}\n`;
  const page = makePage({
    script: add('console.js', script + sourceMap),
    style: add('console.css', await readBuilt('console.css')),
    icon: add('icon.svg', await readBuilt('icon.svg')),
    samples: production ? null : add('samples.json', await readFile(new URL('samples.json', folder), 'utf8')),
    facts,
  });
  return { page, files };
}

async function readBuilt(name: string): Promise<string> {
  return readFile(new URL(`dist/${name}`, folder), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    throw new Problem(
      'not_found',
      "The console hasn't been built here. Run `npm run console`, then reload this page.",
    );
  });
}

interface PageFiles {
  script: string;
  style: string;
  icon: string;
  samples: string | null;
  facts: PageFacts;
}

function makePage({ script, style, icon, samples, facts }: PageFiles): ConsoleFiles['page'] {
  const address = (name: string) => `${consolePath}files/${name}`;
  const told = JSON.stringify({ ...facts, samples: samples && address(samples) });
  const text = [
    '<!doctype html>',
    `<html lang="en" data-facts="${escapeAttribute(told)}">`,
    '<head>',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Handoff Gateway</title>',
    `<link rel="icon" href="${address(icon)}">`,
    `<link rel="stylesheet" href="${address(style)}">`,
    `<script type="module" src="${address(script)}"></script>`,
    '</head>',
    // Stays where a file is missing: while versions change, the page and its files may be of two.
    '<body><div id="console"><main><p>Loading… If this takes long, reload the page.</p></main></div><noscript>The console needs JavaScript.</noscript></body>',
    '</html>',
    '',
  ].join('\n');
  return { contentType: 'text/html; charset=utf-8', text, contentSecurityPolicy };
}

const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

function escapeAttribute(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
