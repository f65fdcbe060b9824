import { isPublic, type Route } from '../route.ts';
import type { JsonObject } from './schemas.ts';

interface Header {
  name?: string;
  description: string;
  schema: JsonObject;
  always: boolean;
  example: string | number;
}

const headers = {
  'X-Request-Id': {
    description: 'Id of the request, as in the log and in errors.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', maxLength: 128 },
    always: true,
    example: '933bfcba-80b2-48dd-b31b-e58b7b06d3e3',
  },
  'Cache-Control': {
    description: 'Whether the response may be cached, and by whom.',
    schema: { type: 'string', pattern: '^[a-z0-9=, -]+$', maxLength: 100 },
    always: true,
    example: 'no-store',
  },
  ETag: {
    description: 'Strong entity tag, for If-Match and If-None-Match.',
    schema: { type: 'string', pattern: '^"[A-Za-z0-9_-]{22}"$', maxLength: 24 },
    always: true,
    example: '"Zk3u0vQ7mXb2nR8tYw5pLs"',
  },
  Age: {
    description: 'How many seconds old the response is at most; absent if it is current.',
    schema: { type: 'integer', format: 'int64', minimum: 0, maximum: 2_147_483_648 },
    always: false,
    example: 12,
  },
  Location: {
    description: 'Path of the new record.',
    schema: { type: 'string', pattern: '^/v1/', maxLength: 200 },
    always: true,
    example: '/v1/quotes/0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f',
  },
  'Preference-Applied': {
    description: "The request's preference that was applied (RFC 7240).",
    schema: { type: 'string', enum: ['respond-async'] },
    always: false,
    example: 'respond-async',
  },
  'Idempotent-Replayed': {
    description:
      '`true` when this is the stored response to an earlier request with the same key; otherwise absent.',
    schema: { type: 'string', enum: ['true'] },
    always: false,
    example: 'true',
  },
  'Handoff-Mode': {
    description: "`test` for a test consumer's credentials; otherwise absent.",
    schema: { type: 'string', enum: ['test'] },
    always: false,
    example: 'test',
  },
  'Retry-After': {
    description: 'Seconds to wait before retrying, the same as `retry_after` in the body.',
    schema: { type: 'integer', format: 'int32', minimum: 0, maximum: 2_678_400 },
    always: false,
    example: 1,
  },
  'RateLimit-Policy': {
    description:
      'How many requests (`q`) are allowed in how many seconds (`w`); sent once the consumer is known, and with 429.',
    schema: { type: 'string', pattern: '^"[a-z-]+";q=\\d+;w=\\d+$', maxLength: 100 },
    always: false,
    example: '"requests";q=6000;w=60',
  },
  RateLimit: {
    description: 'Requests left (`r`), and the seconds until there are more (`t`).',
    schema: { type: 'string', pattern: '^"[a-z-]+";r=\\d+;t=\\d+$', maxLength: 100 },
    always: false,
    example: '"requests";r=5999;t=60',
  },
  Allow: {
    description: 'The methods that this path supports.',
    schema: { type: 'string', pattern: '^[A-Z]+(, [A-Z]+)*$', maxLength: 100 },
    always: true,
    example: 'GET, HEAD, OPTIONS, POST',
  },
  'WWW-Authenticate': {
    description:
      'The challenges in every 401 (RFC 9110): for a key pair, and for a token where tokens are issued.',
    schema: { type: 'string', pattern: '^ApiKey ', maxLength: 2048 },
    always: true,
    example: 'ApiKey realm="handoff-gateway"',
  },
  'Client-Challenge': {
    name: 'WWW-Authenticate',
    description: 'Where the client sent its credentials in the header Authorization (RFC 6749 section 5.2).',
    schema: { type: 'string', pattern: '^Basic ', maxLength: 2048 },
    always: false,
    example: 'Basic realm="handoff-gateway"',
  },
  'Scope-Challenge': {
    name: 'WWW-Authenticate',
    description: 'The scope that a token lacks (RFC 6750 section 3).',
    schema: { type: 'string', pattern: '^Bearer ', maxLength: 2048 },
    always: false,
    example: 'Bearer realm="handoff-gateway", error="insufficient_scope", scope="quotes:read"',
  },
  Deprecation: {
    description: 'When the operation was deprecated: `@` and seconds since 1970 (RFC 9745).',
    schema: { type: 'string', pattern: '^@\\d{1,12}$', maxLength: 13 },
    always: true,
    example: '@1798761600',
  },
  Sunset: {
    description: 'When the operation may be removed, as an HTTP date (RFC 8594).',
    schema: { type: 'string', pattern: ' GMT$', maxLength: 29 },
    always: true,
    example: 'Sat, 01 Jan 2028 00:00:00 GMT',
  },
  Link: {
    description: 'A page that describes the deprecation and what to do (RFC 8288).',
    schema: { type: 'string', pattern: '^<', maxLength: 1000 },
    always: true,
    example: '<https://docs.example.com/v2>; rel="deprecation", <https://docs.example.com/v2>; rel="sunset"',
  },
} as const satisfies Record<string, Header>;

export type HeaderName = keyof typeof headers;

export const headerComponents: JsonObject = Object.fromEntries(
  Object.entries<Header>(headers).map(([key, { always, description, schema, example }]) => [
    key,
    { description, schema, example, required: always },
  ]),
);

export function usualHeaders({ permission, form, deprecation }: Route, isProblem = false): HeaderName[] {
  // A public document is the same for everybody.
  const knowsCaller = isProblem || !isPublic(permission) || permission.showsMore !== undefined || form;
  return [
    'X-Request-Id',
    'Cache-Control',
    ...(knowsCaller ? (['Handoff-Mode'] as const) : []),
    'RateLimit-Policy',
    'RateLimit',
    ...(deprecation ? (['Deprecation', 'Sunset', 'Link'] as const) : []),
  ];
}

export function headerRefs(names: Iterable<HeaderName>): JsonObject {
  const refs: JsonObject = {};
  for (const key of names) {
    const { name = key }: Header = headers[key];
    refs[name] = { $ref: `#/components/headers/${key}` };
  }
  return refs;
}

export function ownHeaders(described: Record<string, string> = {}): JsonObject {
  const own: JsonObject = {};
  for (const [name, description] of Object.entries(described)) {
    const what =
      name in headers
        ? { $ref: `#/components/headers/${name}` }
        : { schema: { type: 'string', maxLength: 2048 } };
    own[name] = { ...what, description };
  }
  return own;
}

const uuid = '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}';
const entityTags = { type: 'string', minLength: 1, maxLength: 1000 };
const exampleTag = '"Zk3u0vQ7mXb2nR8tYw5pLs"';

const idempotencyKey = {
  description:
    'A UUID, bare or in double quotes; both are the same key. The same request with the same key runs ' +
    'once; a repeat gets the same response, with `Idempotent-Replayed: true`.',
  schema: { type: 'string', pattern: `^("${uuid}"|${uuid})$`, minLength: 36, maxLength: 38 },
  example: '8e03978e-40d5-43e8-bc93-6894a57f9324',
};

const requestHeaders = {
  'X-Request-Id': {
    description: "Id for logs and errors. One that doesn't match the pattern is replaced, not refused.",
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', maxLength: 128 },
    example: 'order-4711.1',
  },
  'Idempotency-Key': { ...idempotencyKey, required: true },
  'Optional-Idempotency-Key': {
    ...idempotencyKey,
    name: 'Idempotency-Key',
    description: `${idempotencyKey.description} Without one, a repeat creates another record.`,
  },
  'X-Actor': {
    description:
      'The person acting for the consumer, such as an e-mail address: 1 to 255 printable characters, as UTF-8 in ' +
      "percent-encoding where they aren't ASCII; a literal percent sign is `%25`. Kept with what is created, and in " +
      'audit events.',
    schema: { type: 'string', pattern: '^[\\x20-\\x7e]+$', minLength: 1, maxLength: 3060 },
    example: 'marta.ruiz@example.com',
  },
  Prefer: {
    description:
      '`respond-async` (RFC 7240): 202 once the hand-off is stored. With `wait=N` too, the CRM gets N seconds first, ' +
      'at most 20. Other preferences are ignored.',
    schema: { type: 'string', maxLength: 1000 },
    example: 'respond-async, wait=5',
  },
  'Cache-Control': {
    description:
      '`max-age=N` (RFC 9111) accepts a response up to N seconds old, which may come from a copy or a cache and then has an ' +
      '`Age`. `no-cache` asks the CRM. `stale-if-error=N` (RFC 5861) accepts one of that age from the copy if the CRM fails.',
    schema: { type: 'string', maxLength: 1000 },
    example: 'max-age=60',
  },
  'If-Match': {
    description: 'Entity tags, or `*`. 412 if the record now has another one.',
    schema: entityTags,
    example: exampleTag,
  },
  'If-None-Match': {
    description: 'Entity tags, or `*`. 304 without a body if the resource still has one of them.',
    schema: entityTags,
    example: exampleTag,
  },
  'webhook-id': {
    required: true,
    description: 'Id of the webhook, the same each time it is resent.',
    schema: { type: 'string', pattern: '^[\\x21-\\x2d\\x2f-\\x7e]{1,255}$', maxLength: 255 },
    example: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  },
  'webhook-timestamp': {
    required: true,
    description: 'When it was signed, in seconds since 1970; at most 300 seconds ago or ahead.',
    schema: { type: 'string', pattern: '^\\d{1,12}$', maxLength: 12 },
    example: '1803914712',
  },
} satisfies Record<string, JsonObject>;

export const parameterComponents: JsonObject = Object.fromEntries(
  Object.entries(requestHeaders).map(([name, header]) => [
    name,
    { name, in: 'header', required: false, ...header },
  ]),
);

export function parameterRef(name: keyof typeof requestHeaders): JsonObject {
  return { $ref: `#/components/parameters/${name}` };
}
