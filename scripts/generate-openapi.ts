import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeRoutes, documentedRoutes } from '../src/app/routes.ts';
import { clientTypes } from './client-types.ts';
import { postmanCollection } from './postman-collection.ts';

/*
 * Writes docs/openapi.json from the routes, and the types of the client and the collection for Postman from it. With --released also docs/openapi.released.json, against which later
 * changes are checked; that is for a release only (docs/versioning.md): npm run openapi -- --released
 */

const current = 'docs/openapi.json';
const released = 'docs/openapi.released.json';
const types = 'client/src/types.ts';
const collection = 'docs/postman_collection.json';

/** The document as it stands in the file. */
export function generatedOpenApi(): string {
  return `${JSON.stringify(describeRoutes(documentedRoutes()), null, 2)}\n`;
}

/** The client's types, as they stand in the file. */
export function generatedClientTypes(): string {
  return clientTypes(JSON.parse(generatedOpenApi()) as object);
}

/** The collection for Postman, as it stands in the file. */
export function generatedCollection(): string {
  return `${JSON.stringify(postmanCollection(JSON.parse(generatedOpenApi()) as object), null, 2)}\n`;
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..');
  writeFileSync(join(root, current), generatedOpenApi());
  writeFileSync(join(root, types), generatedClientTypes());
  writeFileSync(join(root, collection), generatedCollection());
  console.log(`wrote ${current}, ${types} and ${collection}`);
  if (process.argv.includes('--released')) {
    copyFileSync(join(root, current), join(root, released));
    console.log(`wrote ${released}`);
  }
}
