import type { JsonObject } from './schemas.ts';

const uuid = '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}';
const entityTags = { type: 'string', minLength: 1, maxLength: 1000 };
const exampleTag = '"Zk3u0vQ7mXb2nR8tYw5pLs"';

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'A UUID, bare or in double quotes; both are the same key. The same request under the same key is carried out ' +
    'once; a repeat gets the same answer, with `Idempotent-Replayed: true`.',
  schema: { type: 'string', pattern: `^("${uuid}"|${uuid})$`, minLength: 36, maxLength: 38 },
  example: '8e03978e-40d5-43e8-bc93-6894a57f9324',
};

/** The headers of requests, each described once. */
const parameters = {
  'X-Request-Id': {
    name: 'X-Request-Id',
    in: 'header',
    required: false,
    description: 'Id for logs and errors. One that does not match the pattern is replaced, not refused.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', maxLength: 128 },
    example: 'order-4711.1',
  },
  'Idempotency-Key': { ...idempotencyKey, required: true },
  'Optional-Idempotency-Key': {
    ...idempotencyKey,
    required: false,
    description: `${idempotencyKey.description} Without one, a repeat makes another record.`,
  },
  'If-Match': {
    name: 'If-Match',
    in: 'header',
    required: false,
    description: 'Entity tags, or `*`. Where the record has another one by now, the answer is 412.',
    schema: entityTags,
    example: exampleTag,
  },
  'If-None-Match': {
    name: 'If-None-Match',
    in: 'header',
    required: false,
    description:
      'Entity tags, or `*`. Where the record still has one of them, the answer is 304 without a body.',
    schema: entityTags,
    example: exampleTag,
  },
  'webhook-id': {
    name: 'webhook-id',
    in: 'header',
    required: true,
    description: 'Id of the webhook, the same whenever it is sent again.',
    schema: { type: 'string', pattern: '^[\\x21-\\x2d\\x2f-\\x7e]{1,255}$', maxLength: 255 },
    example: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  },
  'webhook-timestamp': {
    name: 'webhook-timestamp',
    in: 'header',
    required: true,
    description: 'When it was signed, in seconds since 1970; at most 300 seconds ago or ahead.',
    schema: { type: 'string', pattern: '^\\d{1,12}$', maxLength: 12 },
    example: '1803914712',
  },
} as const satisfies Record<string, JsonObject>;

/** The parameters as components of the document. */
export const parameterComponents: JsonObject = parameters;

/** A reference to one of them. */
export function parameterRef(name: keyof typeof parameters): JsonObject {
  return { $ref: `#/components/parameters/${name}` };
}
