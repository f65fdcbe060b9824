import { join, relative } from 'node:path';
import type { Finding } from './finding.ts';
import { listFiles, readProject, toPosix } from './package-files.ts';
import { filesOf, readComponents } from './source-components.ts';

/**
 * Every file in a package directory belongs to a component. The Salesforce tools leave some files that do not
 * out of a deployment without a word, and stop at others.
 */
export async function checkCoverage(directory: string): Promise<Finding[]> {
  const folders = readProject(directory).sourceDirs.filter(
    (folder) => listFiles(directory, folder).length > 0,
  );
  return (await Promise.all(folders.map((folder) => checkFolder(directory, folder)))).flat();
}

async function checkFolder(directory: string, sourceDir: string): Promise<Finding[]> {
  const files = listFiles(directory, sourceDir);
  try {
    const claimed = await claimedFiles(directory, sourceDir);
    return files
      .filter((file) => !claimed.has(file))
      .map((file) => finding(file, 'The file belongs to no component: its folder or suffix is wrong.'));
  } catch (error) {
    // The library names in its message the file that it stopped at.
    const message = error instanceof Error ? error.message : String(error);
    const named = files.find((file) => message.includes(join(directory, file)));
    if (!named) return [finding(sourceDir, message)];
    return [finding(named, `The file belongs to no component: ${message.replace(`${directory}/`, '')}`)];
  }
}

async function claimedFiles(directory: string, folder: string): Promise<Set<string>> {
  const components = (await readComponents(directory, folder)).getSourceComponents().toArray();
  return new Set(components.flatMap(filesOf).map((file) => toPosix(relative(directory, file))));
}

function finding(file: string, message: string): Finding {
  return { check: 'coverage', file, message };
}
