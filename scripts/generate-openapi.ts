import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openApiDocument } from '../src/api/openapi/document.ts';
import { allRoutes, type Services } from '../src/api/routes.ts';
import { version } from '../src/version.ts';

/*
 * Writes docs/openapi.json from the routes. With --released also docs/openapi.released.json, against which later
 * changes are checked; that is for a release only (docs/versioning.md): npm run openapi -- --released
 */

const current = 'docs/openapi.json';
const released = 'docs/openapi.released.json';

/** The document as it stands in the file. */
export function generatedOpenApi(): string {
  return `${JSON.stringify(openApiDocument(allRoutes({} as Services), version), null, 2)}\n`;
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..');
  writeFileSync(join(root, current), generatedOpenApi());
  console.log(`wrote ${current}`);
  if (process.argv.includes('--released')) {
    copyFileSync(join(root, current), join(root, released));
    console.log(`wrote ${released}`);
  }
}
