import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installIfMissing, isNothingInstalled, npmCommand } from './install-if-missing.js';

/*
 * Makes the npm package of the client, which the service gives out as /client.tgz. The same sources give the same bytes:
 * `npm pack` keeps no times.
 */

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const client = join(root, 'client');

/** Where the service looks for the package of this version. */
function packagePath() {
  const text = readFileSync(join(client, 'package.json'), 'utf8');
  const { version } = /** @type {{ version: string }} */ (JSON.parse(text));
  return join(client, `handoff-gateway-client-${version}.tgz`);
}

/**
 * Writes the package and answers with its path. It is built in a folder of its own: several processes may do so at once, and
 * nothing of an earlier build gets into it.
 *
 * @param {string} [path]
 */
export function packClient(path = packagePath()) {
  const folder = mkdtempSync(join(dirname(path), '.pack-'));
  try {
    copyFileSync(join(root, 'tsconfig.json'), join(folder, 'tsconfig.json'));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    for (const name of sources())
      cpSync(join(client, name), join(folder, 'client', name), { recursive: true });
    const [npm, ...words] = npmCommand();
    execFileSync(npm, [...words, 'pack', '--silent', '--pack-destination', folder], {
      cwd: join(folder, 'client'),
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [made = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
    renameSync(join(folder, made), path);
    return path;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What stands in the client's folder, without what earlier builds left there. */
function sources() {
  return readdirSync(client).filter(
    (name) => name !== 'dist' && !name.endsWith('.tgz') && !name.startsWith('.'),
  );
}

/**
 * Makes the package if it is missing or older than its sources. The service works without it, so a failure is only logged. In
 * production there may be no compiler: then the package comes with the release.
 */
export function packClientIfChanged() {
  if (!hasCompiler()) return;
  try {
    const path = packagePath();
    const made = existsSync(path) ? statSync(path).mtimeMs : 0;
    const files = sources().flatMap((name) => filesOf(join(client, name)));
    if (files.some((file) => statSync(file).mtimeMs > made)) packClient();
  } catch (error) {
    console.error(`Couldn't make the client's package: ${/** @type {Error} */ (error).message}`);
  }
}

function hasCompiler() {
  return existsSync(join(root, 'node_modules/typescript'));
}

/**
 * @param {string} path
 * @returns {string[]}
 */
function filesOf(path) {
  return statSync(path).isDirectory()
    ? readdirSync(path).flatMap((name) => filesOf(join(path, name)))
    : [path];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // A service may run from this folder, and an installation would remove packages that it uses.
  if (isNothingInstalled()) await installIfMissing({ production: true });
  if (hasCompiler()) console.log(packClient());
  else {
    console.error(
      "The compiler isn't installed here. Put the release's package into the folder client, or stop every gateway that runs from here and run: npm ci",
    );
    process.exitCode = 1;
  }
}
