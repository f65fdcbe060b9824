import { checkApex } from './apex.ts';
import { checkConversion } from './conversion.ts';
import { checkCoverage } from './coverage.ts';
import { checkElements } from './elements.ts';
import type { Finding } from './finding.ts';
import { checkManifest } from './manifest.ts';
import { checkReferences } from './references.ts';
import { checkWellFormed } from './well-formed.ts';

/**
 * Everything that can be found wrong with the package in `directory` (where `sfdx-project.json` is) without an org.
 * Where files can't be read, or not as components, the checks that build on that are left out: they would mislead.
 */
export async function checkPackage(directory: string): Promise<Finding[]> {
  const malformed = checkWellFormed(directory);
  if (malformed.length > 0) return malformed;
  const unclaimed = checkCoverage(directory);
  const content = [...checkElements(directory), ...checkReferences(directory), ...checkApex(directory)];
  if (unclaimed.length > 0) return [...unclaimed, ...content];
  return [...content, ...(await checkManifest(directory)), ...checkConversion(directory)];
}
