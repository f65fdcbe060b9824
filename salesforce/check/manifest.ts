import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageXml, readComponents } from './components.ts';
import type { Finding } from './finding.ts';
import { readProject } from './package-files.ts';

const MANIFEST = 'manifest/package.xml';

/** The manifest names exactly the components of the package directory, at the project's API version. */
export async function checkManifest(directory: string): Promise<Finding[]> {
  const written = await readFile(join(directory, MANIFEST), 'utf8').catch(() => '');
  if (written === generateManifest(directory)) return [];
  const message = 'The manifest does not match the package. Run check.ts with --write-manifest.';
  return [{ check: 'manifest', file: MANIFEST, message }];
}

/** Writes the manifest that `checkManifest` expects. */
export async function writeManifest(directory: string): Promise<void> {
  await writeFile(join(directory, MANIFEST), generateManifest(directory));
}

function generateManifest(directory: string): string {
  return packageXml(readComponents(directory), readProject(directory).apiVersion);
}
