import { readFile } from 'node:fs/promises';
import { createArchiveBody, type StaticBody } from '../../api/static-body.ts';
import { version } from '../../platform/base/version.ts';

/** `scripts/pack-client.js` writes it; the image has it. */
const path = new URL(`../../../client/handoff-gateway-client-${version}.tgz`, import.meta.url);

let found: StaticBody | undefined;

/** The package of the client, read once; undefined where it was not made. */
export async function readClientPackage(): Promise<StaticBody | undefined> {
  if (found) return found;
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (bytes) found = createArchiveBody('application/gzip', bytes);
  return found;
}
