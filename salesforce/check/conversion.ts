import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Finding } from './finding.ts';
import { readProject } from './package-files.ts';
import { loadSourceDeployRetrieve, readComponents } from './source-components.ts';

/** The package converts to the form in which the Salesforce CLI sends it, with every component. */
export async function checkConversion(directory: string): Promise<Finding[]> {
  const { MetadataConverter } = await loadSourceDeployRetrieve();
  const outputDirectory = await mkdtemp(join(tmpdir(), 'salesforce-package-'));
  try {
    const components = await readComponents(directory);
    const options = { type: 'directory', outputDirectory, genUniqueDir: false } as const;
    const { converted = [] } = await new MetadataConverter().convert(components, 'metadata', options);
    const expected = components.getSourceComponents().toArray().length;
    return converted.length === expected
      ? []
      : [finding(directory, `Only ${converted.length} of ${expected} components were converted.`)];
  } catch (error) {
    return [finding(directory, error instanceof Error ? error.message : String(error))];
  } finally {
    await rm(outputDirectory, { recursive: true, force: true });
  }
}

function finding(directory: string, message: string): Finding {
  return { check: 'conversion', file: readProject(directory).sourceDir, message };
}
