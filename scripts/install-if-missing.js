import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runChild } from './run-child.js';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const pauseMs = 100;

/**
 * @typedef {{ version?: string, dev?: boolean, devOptional?: boolean, optional?: boolean, link?: boolean,
 *   optionalDependencies?: Record<string, string> }} Entry
 * @typedef {Record<string, Entry>} Entries
 */

/**
 * Installs the locked dependencies when one is missing or of another version; does nothing otherwise, and needs no
 * network then. Two processes do it one after the other: npm empties `node_modules` first. Throws an error whose
 * message is for people.
 *
 * @param {{ production: boolean }} options whether the dependencies of the running service are enough
 */
export async function installIfMissing({ production }) {
  if (missingPackages(production).length === 0) return;
  const lock = join(root, '.install.lock');
  await acquire(lock);
  try {
    // Another process may have installed everything while this one waited.
    const missing = missingPackages(production);
    if (missing.length > 0) await install(missing, production, lock);
  } finally {
    rmSync(lock, { force: true });
  }
}

/**
 * For commands that install nothing: throws an error that names missing packages and the command to run. Packages that only
 * the embedded mode needs may be missing.
 */
export function requireInstalled() {
  const missing = missingPackages(true, false);
  if (missing.length === 0) return;
  throw new Error(
    `${missing.length} packages are missing or outdated (${some(missing)}), and this command installs nothing.\n` +
      `Stop every gateway that runs from ${root}, then run this there: npm ci${hasDevelopmentTools() ? '' : ' --omit=dev'}`,
  );
}

/** Whether no package is installed, as in a fresh clone: then no service runs that an installation could break. */
export function isNothingInstalled() {
  return !existsSync(join(root, 'node_modules/.package-lock.json'));
}

/** @param {string[]} missing */
function some(missing) {
  return `${missing.slice(0, 3).join(', ')}${missing.length > 3 ? ', …' : ''}`;
}

/**
 * @param {string[]} missing
 * @param {boolean} production
 * @param {string} lock
 */
async function install(missing, production, lock) {
  console.error(
    `Installing ${missing.length === 1 ? some(missing) : 'packages'}, ${missing.length < 20 ? 'a few seconds' : 'about a minute'}…`,
  );
  // Who has the development tools keeps them.
  const omit = production && !hasDevelopmentTools() ? ['--omit=dev'] : ['--include=dev'];
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...omit];
  const [file, ...first] = npmCommand();
  const code = await runChild(file, [...first, ...args], {
    cwd: root,
    // What npm says belongs to people, and standard output to the program that is started next.
    stdout: 2,
    onSpawn: (pid) => writeFileSync(lock, `${process.pid} ${pid}`),
  });
  if (code !== 0) {
    throw new Error(
      `Couldn't install the dependencies: npm ci ended with code ${code}. The reason is above.\n` +
        `Fix that, or run it yourself in ${root}: npm ci`,
    );
  }
}

/**
 * Paths of the packages that the lock file names and `node_modules` does not hold in that version.
 *
 * @param {boolean} production
 * @param {boolean} [isEmbedded] whether the packages of the embedded mode count
 * @returns {string[]}
 */
function missingPackages(production, isEmbedded) {
  const wanted = readEntries(join(root, 'package-lock.json'));
  if (wanted === undefined) throw new Error(`${root} has no package-lock.json. Is this a complete clone?`);
  const installed = readEntries(join(root, 'node_modules/.package-lock.json')) ?? {};
  const isGone = (/** @type {string} */ path) =>
    path in installed && !existsSync(join(root, path, 'package.json'));
  return comparePackages(wanted, installed, isGone, production, isEmbedded);
}

/**
 * Paths of the wanted packages that are not installed in that version, or whose folder is gone. The project's own
 * optional dependencies are what the embedded mode needs: they are missed everywhere but in production.
 *
 * @param {Entries} wanted
 * @param {Entries} installed
 * @param {(path: string) => boolean} isGone
 * @param {boolean} production whether development dependencies do not count
 * @param {boolean} [isEmbedded] whether the packages of the embedded mode count
 */
export function comparePackages(
  wanted,
  installed,
  isGone,
  production,
  isEmbedded = process.env['NODE_ENV'] !== 'production',
) {
  const { optionalDependencies = {} } = wanted[''] ?? {};
  const ofEmbedded = new Set(
    Object.keys(isEmbedded ? optionalDependencies : {}).map((name) => `node_modules/${name}`),
  );
  return Object.entries(wanted)
    .filter(([path, entry]) => {
      if (path === '' || (production && (entry.dev || entry.devOptional))) return false;
      const found = installed[path];
      // Of other optional packages only those for this kind of machine are installed.
      if (found === undefined) return !entry.optional || ofEmbedded.has(path);
      return found.version !== entry.version || isGone(path);
    })
    .map(([path]) => path);
}

function hasDevelopmentTools() {
  const installed = readEntries(join(root, 'node_modules/.package-lock.json')) ?? {};
  return Object.values(installed).some(({ dev }) => dev);
}

/**
 * @param {string} file
 * @returns {Entries | undefined}
 */
function readEntries(file) {
  if (!existsSync(file)) return undefined;
  const lock = /** @type {{ packages: Entries }} */ (JSON.parse(readFileSync(file, 'utf8')));
  return lock.packages;
}

/**
 * The npm that runs us, else the one on the PATH: the program and its first arguments.
 *
 * @returns {[string, ...string[]]}
 */
export function npmCommand() {
  const path = process.env['npm_execpath'];
  return path?.endsWith('npm-cli.js') && existsSync(path) ? [process.execPath, path] : ['npm'];
}

/**
 * Waits for the lock file, which names the processes that hold it; one whose processes are gone is taken over.
 *
 * @param {string} lock
 */
async function acquire(lock) {
  let hasTold = false;
  for (;;) {
    if (create(lock)) {
      // Another process that found the same stale lock may have removed this one in its place.
      await pause();
      if (readHolders(lock).includes(process.pid)) return;
    }
    const holders = readHolders(lock);
    if (!holders.some(isAlive)) rmSync(lock, { force: true });
    else if (!hasTold) {
      hasTold = true;
      console.error(
        `Waiting for process ${holders[0]} to install the dependencies (if it isn't doing so, remove ${lock})`,
      );
    }
    await pause();
  }
}

/**
 * Makes the lock file with its content in one step; false when there is one.
 *
 * @param {string} lock
 */
function create(lock) {
  const draft = `${lock}.${process.pid}`;
  writeFileSync(draft, String(process.pid));
  try {
    linkSync(draft, lock);
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** @param {string} lock */
function readHolders(lock) {
  try {
    return readFileSync(lock, 'utf8').split(' ').map(Number);
  } catch {
    return [];
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // A process of somebody else's can't be signalled, and is there.
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM';
  }
}

function pause() {
  return new Promise((resolve) => setTimeout(resolve, pauseMs));
}
