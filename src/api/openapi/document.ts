import type { TSchema } from 'typebox';
import { type ProblemCode, problems } from '../../base/problem.ts';
import { problemContentType } from '../pipeline/problem-answer.ts';
import { type DocumentedAnswer, isPublic, type Permission, type Route } from '../route.ts';

type JsonObject = Record<string, unknown>;

/** The OpenAPI 3.1 document of all routes, made from the routes themselves. */
export function openApiDocument(routes: readonly Route[], version: string): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operation(route);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Handoff Gateway',
      version,
      summary: "Hand-off of search results to the CRM, and a versioned API to the CRM's records",
      description:
        'Business resources are written in snake_case, consumers in camelCase. Members of a body and query parameters ' +
        'that are not known are refused. Errors are problem documents (RFC 9457) with a stable `code`.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This service' }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: { securitySchemes, schemas: { Problem: problemSchema }, headers: commonHeaders },
    security: [{ apiKey: [], apiSecret: [] }],
  };
}

function operation(route: Route): JsonObject {
  const { operationId, tag, summary, description, permission, request } = route;
  return {
    operationId,
    tags: [tag],
    summary,
    description: [description, permissionText(permission)].filter(Boolean).join('\n\n'),
    ...(isPublic(permission) && { security: [] }),
    parameters: [
      ...parameters('path', request.params),
      ...parameters('query', request.query),
      ...headers(route),
    ],
    ...(request.body && {
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: request.body,
            ...(route.requestExample ? { example: route.requestExample } : {}),
          },
        },
      },
    }),
    responses: { ...successes(route), ...failures(route) },
  };
}

function permissionText(permission: Permission): string {
  if (isPublic(permission)) return `Needs no credentials: ${permission.none}.`;
  const wanted = 'anyOf' in permission ? permission.anyOf : [permission];
  return `Needs the permission ${wanted.map(({ resource, action }) => `\`${resource}:${action}\``).join(' or ')}.`;
}

function parameters(where: 'path' | 'query', schema: TSchema | undefined): JsonObject[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, TSchema & { description?: string }>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    ...(property.description !== undefined && { description: property.description }),
    schema: property,
  }));
}

function headers({ idempotencyKey }: Route): JsonObject[] {
  const requestId = { $ref: '#/components/headers/X-Request-Id' };
  const list: JsonObject[] = [
    {
      name: 'X-Request-Id',
      in: 'header',
      description: 'Id for logs and errors; one that does not match the pattern is replaced.',
      schema: commonHeaders['X-Request-Id'].schema,
    },
  ];
  void requestId;
  if (idempotencyKey === 'ignored') return list;
  return [
    ...list,
    {
      name: 'Idempotency-Key',
      in: 'header',
      required: idempotencyKey === 'required',
      description:
        'A UUID, bare or in double quotes. The same request under the same key is carried out once.',
      schema: { type: 'string', minLength: 36, maxLength: 38 },
    },
  ];
}

function successes({ answers, idempotencyKey }: Route): JsonObject {
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [
      status,
      success(answer, idempotencyKey !== 'ignored'),
    ]),
  );
}

function success(
  { description, schema, example, headers: own = {} }: DocumentedAnswer,
  keyed: boolean,
): JsonObject {
  const declared = Object.entries(own).map(([name, text]) => [
    name,
    { description: text, schema: { type: 'string', maxLength: 2048 } },
  ]);
  return {
    description,
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
      ...(keyed && { 'Idempotent-Replayed': { $ref: '#/components/headers/Idempotent-Replayed' } }),
      ...Object.fromEntries(declared),
    },
    ...(schema && {
      content: { 'application/json': { schema, ...(example === undefined ? {} : { example }) } },
    }),
  };
}

/** All codes that a route can answer with: its own, and those that follow from what it asks for. */
export function problemCodes(route: Route): ProblemCode[] {
  const codes: ProblemCode[] = ['invalid_request', 'not_found', 'method_not_allowed', 'internal_error'];
  if (!isPublic(route.permission)) codes.push('invalid_credentials', 'permission_denied');
  if (route.request.body) codes.push('malformed_json', 'payload_too_large', 'unsupported_media_type');
  if (route.idempotencyKey === 'required') codes.push('idempotency_key_missing');
  if (route.idempotencyKey !== 'ignored') {
    codes.push(
      'idempotency_key_invalid',
      'idempotency_key_reused',
      'idempotency_in_progress',
      'store_unavailable',
    );
  }
  return [...new Set([...codes, ...route.problems])];
}

function failures(route: Route): JsonObject {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of problemCodes(route)) {
    const { status } = problems[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const documented = [...byStatus].filter(([status]) => !(status in route.answers));
  return Object.fromEntries(
    documented.sort(([a], [b]) => a - b).map(([status, codes]) => [status, failure(codes)]),
  );
}

function failure(codes: ProblemCode[]): JsonObject {
  return {
    description: codes.map((code) => `\`${code}\`: ${problems[code].title}.`).join('\n\n'),
    headers: { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } },
    content: { [problemContentType]: { schema: { $ref: '#/components/schemas/Problem' } } },
  };
}

const securitySchemes = {
  apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The API key of a consumer.' },
  apiSecret: {
    type: 'apiKey',
    in: 'header',
    name: 'x-api-secret',
    description: 'The secret that belongs to the key.',
  },
};

const commonHeaders = {
  'X-Request-Id': {
    description: 'Id of the request, as it stands in the log.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', maxLength: 128 },
  },
  'Idempotent-Replayed': {
    description: '`true` when this is the stored answer of an earlier request with the same key.',
    schema: { type: 'string', enum: ['true'] },
  },
};

const problemSchema = {
  type: 'object',
  description: 'A problem document (RFC 9457).',
  required: ['type', 'title', 'status', 'detail', 'code', 'request_id'],
  properties: {
    type: {
      type: 'string',
      maxLength: 200,
      description: 'Identifies the kind of problem; follows from the code.',
    },
    title: { type: 'string', maxLength: 200, description: 'The kind of problem, the same each time.' },
    status: { type: 'integer', minimum: 400, maximum: 599, description: 'The HTTP status.' },
    detail: { type: 'string', maxLength: 4000, description: 'What is wrong this time, for people.' },
    code: {
      type: 'string',
      enum: Object.keys(problems),
      description: 'The stable name of the problem, for programs.',
    },
    request_id: {
      type: 'string',
      maxLength: 128,
      description: 'Id of the request, as it stands in the log.',
    },
    errors: {
      type: 'array',
      maxItems: 20,
      description: 'Where the request is at fault.',
      items: {
        type: 'object',
        required: ['message'],
        properties: {
          pointer: {
            type: 'string',
            maxLength: 2000,
            description: 'Place in the body (RFC 6901, as URI fragment).',
          },
          parameter: { type: 'string', maxLength: 200, description: 'Name of a path or query parameter.' },
          header: { type: 'string', maxLength: 200, description: 'Name of a header.' },
          message: { type: 'string', maxLength: 1000, description: 'What is wrong there.' },
        },
      },
    },
    required: {
      type: 'object',
      description: 'The permission that is missing.',
      required: ['resource', 'action'],
      properties: { resource: { type: 'string', maxLength: 20 }, action: { type: 'string', maxLength: 10 } },
    },
    retry_after: { type: 'number', minimum: 0, description: 'Seconds after which a repeat may help.' },
    external_id: {
      type: 'string',
      format: 'uuid',
      maxLength: 36,
      description:
        'After a write whose outcome is not known: the record to look for before sending it again.',
    },
  },
};
