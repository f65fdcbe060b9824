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
    description: 'Id of the request, as it stands in the log and in errors.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', maxLength: 128 },
    always: true,
    example: '933bfcba-80b2-48dd-b31b-e58b7b06d3e3',
  },
  'Cache-Control': {
    description: 'Whether the answer may be kept, and by whom.',
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
    description: 'How many seconds old the answer is at most; absent where it is what the CRM has now.',
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
    description: 'The preference of the request that was honoured (RFC 7240).',
    schema: { type: 'string', enum: ['respond-async'] },
    always: false,
    example: 'respond-async',
  },
  'Idempotent-Replayed': {
    description:
      '`true` when this is the stored answer of an earlier request with the same key; else absent.',
    schema: { type: 'string', enum: ['true'] },
    always: false,
    example: 'true',
  },
  'Handoff-Mode': {
    description: 'There, and `test`, where the credentials are those of a test consumer.',
    schema: { type: 'string', enum: ['test'] },
    always: false,
    example: 'test',
  },
  'Retry-After': {
    description: 'Seconds after which a repeat may help, the same as `retry_after` in the body.',
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
    description: 'How many requests are left (`r`), and in how many seconds there are more (`t`).',
    schema: { type: 'string', pattern: '^"[a-z-]+";r=\\d+;t=\\d+$', maxLength: 100 },
    always: false,
    example: '"requests";r=5999;t=60',
  },
  Allow: {
    description: 'The methods that this path answers.',
    schema: { type: 'string', pattern: '^[A-Z]+(, [A-Z]+)*$', maxLength: 100 },
    always: true,
    example: 'GET, HEAD, OPTIONS, POST',
  },
  'WWW-Authenticate': {
    description:
      'The challenges that every 401 carries (RFC 9110): for a pair, and for a token where tokens are issued.',
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
    description: 'Where a token lacks the scope: which one (RFC 6750 section 3).',
    schema: { type: 'string', pattern: '^Bearer ', maxLength: 2048 },
    always: false,
    example: 'Bearer realm="handoff-gateway", error="insufficient_scope", scope="quotes:read"',
  },
  Deprecation: {
    description: 'Since when the operation is deprecated: `@` and seconds since 1970 (RFC 9745).',
    schema: { type: 'string', pattern: '^@\\d{1,12}$', maxLength: 13 },
    always: true,
    example: '@1798761600',
  },
  Sunset: {
    description: 'From when on the operation may be gone, as HTTP date (RFC 8594).',
    schema: { type: 'string', pattern: ' GMT$', maxLength: 29 },
    always: true,
    example: 'Sat, 01 Jan 2028 00:00:00 GMT',
  },
  Link: {
    description: 'Where the deprecation and what to do about it are described (RFC 8288).',
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
    'A UUID, bare or in double quotes; both are the same key. The same request under the same key is executed ' +
    'once; a repeat gets the same answer, with `Idempotent-Replayed: true`.',
  schema: { type: 'string', pattern: `^("${uuid}"|${uuid})$`, minLength: 36, maxLength: 38 },
  example: '8e03978e-40d5-43e8-bc93-6894a57f9324',
};

const requestHeaders = {
  'X-Request-Id': {
    description: 'Id for logs and errors. One that does not match the pattern is replaced, not refused.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', maxLength: 128 },
    example: 'order-4711.1',
  },
  'Idempotency-Key': { ...idempotencyKey, required: true },
  'Optional-Idempotency-Key': {
    ...idempotencyKey,
    name: 'Idempotency-Key',
    description: `${idempotencyKey.description} Without one, a repeat makes another record.`,
  },
  'X-Actor': {
    description:
      'The person who acts at the consumer, for example an e-mail address: 1 to 255 printable characters, as UTF-8 in ' +
      'percent-encoding where they are not ASCII; a literal percent sign is `%25`. Kept with what is created, and in ' +
      'audit events.',
    schema: { type: 'string', pattern: '^[\\x20-\\x7e]+$', minLength: 1, maxLength: 3060 },
    example: 'marta.ruiz@example.com',
  },
  Prefer: {
    description:
      '`respond-async` (RFC 7240): 202 once the hand-off is stored. With `wait=N` as well the CRM is given N seconds first, ' +
      '20 at most. Other preferences are ignored.',
    schema: { type: 'string', maxLength: 1000 },
    example: 'respond-async, wait=5',
  },
  'Cache-Control': {
    description:
      '`max-age=N` (RFC 9111) takes an answer that is at most N seconds old, which may come from a copy or a cache and then says its ' +
      '`Age`. `no-cache` asks the CRM. `stale-if-error=N` (RFC 5861) takes an answer of that age from the copy where the CRM fails.',
    schema: { type: 'string', maxLength: 1000 },
    example: 'max-age=60',
  },
  'If-Match': {
    description: 'Entity tags, or `*`. Where the record has another one by now, the answer is 412.',
    schema: entityTags,
    example: exampleTag,
  },
  'If-None-Match': {
    description:
      'Entity tags, or `*`. Where what is asked for still has one of them, the answer is 304 without a body.',
    schema: entityTags,
    example: exampleTag,
  },
  'webhook-id': {
    required: true,
    description: 'Id of the webhook, the same whenever it is sent again.',
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
