import { readComponents, withoutCode } from './components.ts';
import type { Finding } from './finding.ts';
import { readProject } from './package-files.ts';

/** Every class and trigger has its source, without which the Salesforce CLI cannot send the package. */
export function checkConversion(directory: string): Finding[] {
  return readProject(directory).sourceDirs.flatMap((folder) =>
    withoutCode(readComponents(directory, folder)).map(({ name, files: [file = ''] }) => ({
      check: 'conversion',
      file,
      message: `${name} has no source beside its metadata.`,
    })),
  );
}
