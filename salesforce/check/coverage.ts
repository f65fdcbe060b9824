import { readComponents } from './components.ts';
import type { Finding } from './finding.ts';
import { listFiles, readProject } from './package-files.ts';

/**
 * Every file in a package directory belongs to a component. The Salesforce tools leave some files that do not
 * out of a deployment without a word, and stop at others.
 */
export function checkCoverage(directory: string): Finding[] {
  return readProject(directory).sourceDirs.flatMap((folder) => {
    const claimed = new Set(readComponents(directory, folder).flatMap(({ files }) => files));
    return listFiles(directory, folder)
      .filter((file) => !claimed.has(file))
      .map((file) => ({
        check: 'coverage',
        file,
        message:
          'The file belongs to no component: its folder or suffix is wrong, or salesforce/check/components.ts lacks its type.',
      }));
  });
}
