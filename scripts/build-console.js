import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/*
 * Bundles the console into console/dist, which the service serves: a script with its source map, a stylesheet and the icon.
 */

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'console/dist');
/** Names the sources that the bundle was made of. */
const stamp = join(dist, 'sources');

/** Bundles the console if that was not done yet, or its sources have changed since. */
export async function buildConsole() {
  const sources = hashOfSources();
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === sources) return;
  const outputFiles = await bundle();
  mkdirSync(dist, { recursive: true });
  for (const { path, contents } of outputFiles) replace(join(dist, basename(path)), contents);
  replace(stamp, sources);
}

async function bundle() {
  const { build, stop } = await import('esbuild');
  try {
    const { outputFiles } = await build({
      absWorkingDir: root,
      entryPoints: [
        { in: 'console/main.tsx', out: 'console' },
        { in: 'console/styles.css', out: 'console' },
        { in: 'console/icon.svg', out: 'icon' },
      ],
      outdir: 'console/dist',
      bundle: true,
      minify: true,
      format: 'esm',
      target: 'es2023',
      loader: { '.svg': 'copy' },
      sourcemap: 'external',
      banner: { js: '/* With Preact, (c) Jason Miller, MIT licence: https://preactjs.com */' },
      write: false,
    });
    return outputFiles;
  } finally {
    // The process that esbuild keeps for more builds would be the gateway's child for as long as it runs.
    await stop();
  }
}

/** As before a start: the service works without its console, and in production the bundle comes with the image. */
export async function buildConsoleIfPossible() {
  if (!existsSync(join(root, 'node_modules/esbuild'))) return;
  try {
    await buildConsole();
  } catch (error) {
    console.error(`Couldn't bundle the console: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * In one step: several processes may build at once, and others read.
 *
 * @param {string} path
 * @param {Uint8Array | string} contents
 */
function replace(path, contents) {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, contents);
  renameSync(draft, path);
}

/** Of names and bytes: a checkout and an image have times of their own. */
function hashOfSources() {
  const paths = [
    ...filesOf(join(root, 'console')),
    ...filesOf(join(root, 'client/src')),
    fileURLToPath(import.meta.url),
    ...['esbuild', 'preact'].map((name) => join(root, 'node_modules', name, 'package.json')),
  ];
  const hash = createHash('sha256');
  for (const path of paths) hash.update(`${path.slice(root.length)}\n`).update(readFileSync(path));
  return hash.digest('hex');
}

/**
 * @param {string} folder
 * @returns {string[]}
 */
function filesOf(folder) {
  if (folder === dist) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesOf(path) : [path];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildConsole();
