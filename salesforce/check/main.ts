/**
 * What `node salesforce/check.ts` runs. Prints what is wrong and exits with 1, or says that nothing is. The directory is that of the package unless given.
 */
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { checkPackage } from './check-package.ts';
import { writeManifest } from './manifest.ts';

const { values, positionals } = parseArgs({
  options: { 'write-manifest': { type: 'boolean', default: false } },
  allowPositionals: true,
});
await main(positionals[0] ?? dirname(import.meta.dirname)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});

async function main(directory: string): Promise<void> {
  if (values['write-manifest']) await writeManifest(directory);
  const findings = await checkPackage(directory);
  for (const { check, file, message } of findings) console.error(`${file}: ${message} [${check}]`);
  if (findings.length > 0) process.exitCode = 1;
  else console.log('The Salesforce package is in order.');
}
