import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

/** A package that the tests need and the project does not have, in a folder of its own. */
export interface FetchedPackage extends AsyncDisposable {
  folder: string;
  /** Loads a file of it, its main module where none is named. */
  load<T>(module?: string): Promise<T>;
}

/** Fetches `name@version` by npm. Undefined where npm cannot get it. */
export async function fetchPackage(name: string, version: string): Promise<FetchedPackage | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'handoff-fetched-'));
  const remove = () => rm(folder, { recursive: true });
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--prefix', folder];
  try {
    // Where nobody answers, npm itself would go on for longer than a test may take.
    const limits = { cwd: folder, timeout: 120_000 };
    await promisify(execFile)('npm', ['install', ...options, `${name}@${version}`], limits);
  } catch {
    await remove();
    return undefined;
  }
  const { resolve } = createRequire(join(folder, 'here.js'));
  const load = <T>(module = '') =>
    import(
      pathToFileURL(module === '' ? resolve(name) : join(folder, 'node_modules', name, module)).href
    ) as Promise<T>;
  return { folder, load, [Symbol.asyncDispose]: remove };
}
