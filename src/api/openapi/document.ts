import { readFileSync } from 'node:fs';
import type { Route } from '../route.ts';
import { headerComponents, parameterComponents } from './headers.ts';
import { operation } from './operations.ts';
import { createProblemResponses } from './problem-responses.ts';
import { createSchemaWriter, type JsonObject } from './schemas.ts';

/**
 * The OpenAPI 3.1 document of all routes, made from the routes themselves. `tags`: the groups of operations, in their order,
 * with descriptions. Throws where a route is in no group.
 */
export function openApiDocument(
  all: readonly Route[],
  tags: Readonly<Record<string, string>>,
  version: string,
): JsonObject {
  const routes = all.filter(({ isForBrowsers }) => !isForBrowsers);
  const schemas = createSchemaWriter();
  const problemResponses = createProblemResponses();
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operation(route, schemas, problemResponses);
  }
  const used = new Set(routes.map(({ tag }) => tag));
  for (const tag of used) if (!(tag in tags)) throw new Error(`no feature describes the tag ${tag}`);
  const { responses, examples, schemas: problemSchemas } = problemResponses.components;
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Handoff Gateway',
      version,
      summary: "Hand-off of search results to the CRM, and a versioned API to the CRM's records",
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This service' }],
    tags: Object.entries(tags)
      .filter(([name]) => used.has(name))
      .map(([name, text]) => ({ name, description: text })),
    security: [{ apiKey: [], apiSecret: [] }],
    paths,
    components: {
      securitySchemes,
      schemas: sorted({ ...schemas.components, ...problemSchemas }),
      parameters: parameterComponents,
      headers: headerComponents,
      responses: sorted(responses),
      examples: sorted(examples),
    },
  };
  return { ...document, components: withoutUnused(document.components, JSON.stringify(document)) };
}

/** Without what nothing refers to, such as headers that no operation of today sends. */
function withoutUnused(components: Record<string, JsonObject>, text: string): JsonObject {
  const kept: JsonObject = {};
  for (const [section, entries] of Object.entries(components)) {
    const isUsed = (name: string) =>
      section === 'securitySchemes' || text.includes(`"#/components/${section}/${name}"`);
    kept[section] = Object.fromEntries(Object.entries(entries).filter(([name]) => isUsed(name)));
  }
  return kept;
}

/** For people who see the API for the first time. */
const description = readFileSync(new URL('./introduction.md', import.meta.url), 'utf8');

const securitySchemes = {
  apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The API key of a consumer.' },
  apiSecret: {
    type: 'apiKey',
    in: 'header',
    name: 'x-api-secret',
    description: 'The secret that belongs to the key.',
  },
  webhookSignature: {
    type: 'apiKey',
    in: 'header',
    name: 'webhook-signature',
    description:
      'Standard Webhooks: `v1,` and the HMAC-SHA-256 of `<webhook-id>.<webhook-timestamp>.<body>` in base64, with a secret ' +
      'that both sides know. Several, separated by a space, while secrets are changed; one that is right is enough.',
  },
};

/** In a fixed order, so that moving a route does not move half of the document. */
function sorted(components: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1)));
}
