import type { TSchema } from 'typebox';
import { formType } from '../pipeline/body.ts';
import { type DocumentedAnswer, isPublic, type Permission, type Route } from '../route.ts';
import { type HeaderName, headerRefs, ownHeaders, parameterRef, usualHeaders } from './headers.ts';
import type { ProblemResponses } from './problem-responses.ts';
import { exampleOf, type JsonObject, type SchemaWriter } from './schemas.ts';

export function operation(
  route: Route,
  schemas: SchemaWriter,
  problemResponses: ProblemResponses,
  issuesTokens: boolean,
): JsonObject {
  const { operationId, tag, summary, permission, request, deprecation } = route;
  const answers = Object.entries(route.answers).map(([status, answer]) => [
    status,
    response(answer, headersOf(route, Number(status)), schemas),
  ]);
  return {
    operationId,
    tags: [tag],
    summary,
    description: description(route),
    ...(deprecation && { deprecated: true }),
    ...(isPublic(permission)
      ? { security: openSecurity(route, issuesTokens) }
      : { 'x-permissions': permissionNames(permission) }),
    parameters: [
      ...parameters('path', request.params, schemas),
      ...parameters('query', request.query, schemas),
      ...headerParameters(route).map(parameterRef),
    ],
    ...(request.body && { requestBody: requestBody(request.body, route, schemas) }),
    responses: { ...Object.fromEntries(answers), ...problemResponses.of(route) },
  };
}

type Security = Record<string, string[]>;

export function usualSecurity(issuesTokens: boolean): Security[] {
  return [{ apiKey: [], apiSecret: [] }, ...(issuesTokens ? [{ oauth2: [] }] : [])];
}

function openSecurity({ permission, signature, form }: Route, issuesTokens: boolean): Security[] {
  if (signature) return [{ webhookSignature: [] }];
  if (form) return [{ clientSecret: [] }, {}];
  return 'showsMore' in permission ? [{}, ...usualSecurity(issuesTokens)] : [];
}

function description({ description: text, permission, deprecation }: Route): string {
  const ending =
    deprecation &&
    `Deprecated since ${deprecation.since}; it may be removed from ${deprecation.sunset} on. See ${deprecation.link}.`;
  return [text, permissionText(permission), ending].filter(Boolean).join('\n\n');
}

function permissionText(permission: Permission): string {
  if (isPublic(permission)) {
    const { none, showsMore } = permission;
    const more = showsMore === undefined ? '' : ` With valid credentials of any consumer: ${showsMore}.`;
    return `Needs no credentials: ${none}.${more}`;
  }
  if ('anyCredentials' in permission) return `Needs valid credentials, but no permission.`;
  const names = permissionNames(permission).map((name) => `\`${name}\``);
  return `Needs the permission ${names.join(' or ')}.`;
}

function permissionNames(permission: Exclude<Permission, { none: string }>): string[] {
  if ('anyCredentials' in permission) return [];
  const wanted = 'anyOf' in permission ? permission.anyOf : [permission];
  return wanted.map(({ resource, action }) => `${resource}:${action}`);
}

function parameters(
  where: 'path' | 'query',
  schema: TSchema | undefined,
  schemas: SchemaWriter,
): JsonObject[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, TSchema & { description?: string; examples?: unknown[] }>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description: text, examples, ...property }]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    ...(text !== undefined && { description: text }),
    schema: schemas.request(property),
    ...(examples && { example: examples[0] }),
  }));
}

function headerParameters({ method, permission, preferable, takesAge, ...route }: Route) {
  const { idempotencyKey, conditional, signature } = route;
  const isWrite = method !== 'GET' && !isPublic(permission);
  return [
    'X-Request-Id' as const,
    ...(isWrite ? (['X-Actor'] as const) : []),
    ...(idempotencyKey === 'required' ? (['Idempotency-Key'] as const) : []),
    ...(idempotencyKey === 'optional' ? (['Optional-Idempotency-Key'] as const) : []),
    ...(preferable ? (['Prefer'] as const) : []),
    ...(takesAge ? (['Cache-Control'] as const) : []),
    ...(conditional ? [conditional] : []),
    ...(signature ? (['webhook-id', 'webhook-timestamp'] as const) : []),
  ];
}

function requestBody(schema: TSchema, route: Route, schemas: SchemaWriter): JsonObject {
  const example = route.requestExample ?? exampleOf(schema);
  return {
    required: route.bodyOptional !== true,
    content: { [route.form ? formType : 'application/json']: { schema: schemas.request(schema), example } },
  };
}

function headersOf(route: Route, status: number): HeaderName[] {
  const { idempotencyKey, form } = route;
  return [
    ...usualHeaders(route),
    ...(idempotencyKey !== 'ignored' && status < 300 ? (['Idempotent-Replayed'] as const) : []),
    ...(form && status === 401 ? (['Client-Challenge'] as const) : []),
  ];
}

function response(answer: DocumentedAnswer, headers: HeaderName[], schemas: SchemaWriter): JsonObject {
  const { schema, said, otherMedia } = answer;
  const media: Record<string, JsonObject> = {};
  if (schema) {
    const example = answer.example ?? exampleOf(schema);
    media['application/json'] = {
      schema: schemas.answer(schema),
      example: said ? { ...(example as object), ...said } : example,
    };
  }
  for (const type of otherMedia ?? []) {
    media[type] = { schema: { type: 'string', maxLength: 10_000_000, description: 'Text.' } };
  }
  return {
    description: answer.description,
    headers: { ...headerRefs(headers), ...ownHeaders(answer.headers) },
    ...(Object.keys(media).length > 0 && { content: media }),
  };
}
