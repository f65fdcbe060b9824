import { readFileSync } from 'node:fs';
import { permissionActions, permissionResources } from '../../identity/consumers/consumer.ts';
import type { Route } from '../route.ts';
import { codeSamples, type Operation, type Parameters } from './code-samples.ts';
import { headerComponents, parameterComponents } from './headers.ts';
import { operation, usualSecurity } from './operations.ts';
import { createProblemResponses } from './problem-responses.ts';
import { createSchemaWriter, type JsonObject } from './schemas.ts';
import { type DocumentedWebhook, webhookItems } from './webhooks.ts';

/** The OpenAPI 3.1 document of all routes, made from the routes themselves. Throws where a route is in no group. */
export function openApiDocument(
  all: readonly Route[],
  {
    tags,
    webhooks = {},
    version,
  }: {
    tags: Readonly<Record<string, string>>;
    webhooks?: Readonly<Record<string, DocumentedWebhook>>;
    version: string;
  },
): JsonObject {
  const routes = all.filter(({ isUnlisted }) => !isUnlisted);
  const schemas = createSchemaWriter();
  const problemResponses = createProblemResponses();
  const tokenUrl = routes.find(({ form }) => form !== undefined)?.path;
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    const described = operation(route, schemas, problemResponses, tokenUrl !== undefined);
    const samples = codeSamples(
      route.method,
      path,
      described as Operation,
      parameterComponents as Parameters,
    );
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = { ...described, ...(samples && { 'x-codeSamples': samples }) };
  }
  const used = new Set(routes.map(({ tag }) => tag));
  for (const tag of used) if (!(tag in tags)) throw new Error(`no feature describes the tag ${tag}`);
  const { responses, examples, schemas: problemSchemas } = problemResponses.components;
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Handoff Gateway',
      version,
      summary: "Hands search results off to the CRM, and serves the CRM's records through a versioned API",
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This gateway' }],
    tags: Object.entries(tags)
      .filter(([name]) => used.has(name))
      .map(([name, text]) => ({ name, description: text })),
    security: usualSecurity(tokenUrl !== undefined),
    paths,
    ...(Object.keys(webhooks).length > 0 && { webhooks: webhookItems(webhooks, schemas) }),
    components: {
      securitySchemes: { ...securitySchemes, ...(tokenUrl && tokenSchemes(tokenUrl)) },
      schemas: sorted({ ...schemas.components, ...problemSchemas }),
      parameters: parameterComponents,
      headers: headerComponents,
      responses: sorted(responses),
      examples: sorted(examples),
    },
  };
  return { ...document, components: withoutUnused(document.components, JSON.stringify(document)) };
}

function withoutUnused(components: Record<string, JsonObject>, text: string): JsonObject {
  const kept: JsonObject = {};
  for (const [section, entries] of Object.entries(components)) {
    const isUsed = (name: string) =>
      section === 'securitySchemes' || text.includes(`"#/components/${section}/${name}"`);
    kept[section] = Object.fromEntries(Object.entries(entries).filter(([name]) => isUsed(name)));
  }
  return kept;
}

const description = readFileSync(new URL('./introduction.md', import.meta.url), 'utf8');

const securitySchemes = {
  apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: "A consumer's API key." },
  apiSecret: {
    type: 'apiKey',
    in: 'header',
    name: 'x-api-secret',
    description: "The key's secret.",
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

function tokenSchemes(tokenUrl: string): JsonObject {
  const scopes = permissionResources.flatMap((resource) =>
    permissionActions.map((action) => [`${resource}:${action}`, `The permission to ${action} ${resource}.`]),
  );
  return {
    oauth2: {
      type: 'oauth2',
      description: 'An access token, as `Authorization: Bearer`, in place of the API key and the secret.',
      flows: { clientCredentials: { tokenUrl, scopes: Object.fromEntries(scopes) as JsonObject } },
    },
    clientSecret: {
      type: 'http',
      scheme: 'basic',
      description:
        'The API key as user name and the API secret as password. Or send both, or an assertion, in the form.',
    },
  };
}

/** In a fixed order, so that moving a route does not move half of the document. */
function sorted(components: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1)));
}
