import { isIP } from 'node:net';
import { type Static, Type } from 'typebox';
import { defineRoute, type Route } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  pageAnswer,
  pageParameters,
  pageSchema,
  shownAs,
} from '../../../api/routes/page.ts';
import { attemptResults } from '../../../identity/audit/attempt.ts';
import type { AttemptQuery, ListedAttempt } from '../../../identity/audit/attempt-table.ts';
import type { Audit } from '../../../identity/audit/audit.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { ConsumerDirectory } from '../../../identity/consumers/directory.ts';
import { idsManagedBy } from '../../../identity/consumers/test-families.ts';
import { modeOf } from '../../../platform/base/call.ts';
import { networkOf, normaliseAddress } from '../../../platform/base/networks.ts';
import { Problem, type ProblemCode } from '../../../platform/base/problem.ts';
import { exampleKey, id, mode, moment, orNull, since } from './schemas.ts';

const ownQuery = Type.Object(
  {
    ...pageParameters,
    result: Type.Optional(
      Type.Enum(attemptResults, { description: 'How the attempt ended.', examples: ['wrong_secret'] }),
    ),
    address: Type.Optional(
      Type.String({
        maxLength: 64,
        format: 'text',
        description:
          "The caller's address. It also finds the summaries for its network (for IPv6 the first 64 bits) beyond the limit.",
        examples: ['192.0.2.10'],
      }),
    ),
    api_key: Type.Optional(
      Type.String({
        maxLength: 64,
        format: 'text',
        description: 'The API key that was presented.',
        examples: [exampleKey],
      }),
    ),
    request_id: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        format: 'text',
        description: 'Id of the request, as in its response and its log line.',
        examples: ['933bfcba-80b2-48dd-b31b-e58b7b06d3e3'],
      }),
    ),
    since: since('Earlier attempts are left out.'),
  },
  { additionalProperties: false },
);
const query = Type.Object(
  { ...ownQuery.properties, consumer_id: Type.Optional(id) },
  { additionalProperties: false },
);

const attempt = Type.Object(
  {
    consumer_id: orNull(id, 'Null only when the key is unknown.'),
    consumer_name: orNull(
      Type.String({ maxLength: 400, examples: ['Partner A'] }),
      'Its current name; null if it was revoked.',
    ),
    endpoint: Type.String({
      maxLength: 300,
      description: 'Method and route pattern.',
      examples: ['GET /v1/quotes/:id'],
    }),
    result: Type.Enum(attemptResults, { examples: ['accepted'] }),
    timestamp: moment('2027-03-01T08:00:00.000Z'),
    request_id: Type.String({
      maxLength: 128,
      description: 'The X-Request-Id of the request.',
      examples: ['933bfcba-80b2-48dd-b31b-e58b7b06d3e3'],
    }),
    address: orNull(
      Type.String({ maxLength: 64, examples: ['192.0.2.10'] }),
      "The caller's address; null in a summary of many addresses.",
    ),
    user_agent: orNull(
      Type.String({ maxLength: 255, examples: ['partner-a/2.1'] }),
      'The User-Agent header, at most 255 characters; null if none was sent.',
    ),
    api_key: orNull(
      Type.String({ maxLength: 64, examples: [exampleKey] }),
      'The API key that was sent, or the beginning of what was sent in its place; null if none was.',
    ),
    person: orNull(
      Type.String({ maxLength: 1020, examples: [null] }),
      "The signed-in person who sent the request; null if it came with the consumer's credentials.",
    ),
    status: Type.Integer({
      minimum: 100,
      maximum: 599,
      description: 'HTTP status of the response.',
      examples: [200],
    }),
    count: Type.Integer({
      minimum: 1,
      maximum: 2_147_483_647,
      description:
        'How many attempts this stands for. More than 1 if an address failed more often than the limit, or a consumer ' +
        'was refused (403, 429), or needed no credentials, more than 60 times a minute: further attempts share one entry for ' +
        'each minute and result, with the other fields of the first one. With very many requests too: then only the time, ' +
        'the request id and the client are those of the first.',
      examples: [1],
    }),
    mode,
  },
  { title: 'AuthenticationAttempt', description: 'An attempt to authenticate, accepted or not.' },
);

const shown = shownAs(attempt);

const all = {
  method: 'GET',
  tag: 'Administration',
  idempotencyKey: 'ignored',
  answers: {
    200: {
      description: 'A page.',
      schema: pageSchema(attempt, 'AuthenticationAttemptPage', 'A page of authentication attempts.'),
    },
  },
  problems: ['invalid_cursor', 'store_unavailable'] as ProblemCode[],
} as const;
const description =
  'Newest first. Attempts at other replicas can appear a second later. A cursor works only with the same filters.';

interface AttemptsContext {
  audit: Audit;
  directory: Pick<ConsumerDirectory, 'newestFirst' | 'consumer'>;
}

export function listAuthAttemptsRoute(context: AttemptsContext, cursors: CursorCodec): Route {
  return defineRoute({
    ...all,
    path: '/v1/admin/auth-attempts',
    operationId: 'listAuthenticationAttempts',
    summary: 'List authentication attempts',
    description,
    permission: { resource: 'consumers', action: 'read' },
    request: { query },
    handle: ({ query: sent, consumer }) =>
      list(
        { ...sent, ofConsumers: idsManagedBy(consumer as Consumer, context.directory) },
        consumer as Consumer,
        context,
        cursors,
      ),
  });
}

export function listOwnAttemptsRoute(context: AttemptsContext, cursors: CursorCodec): Route {
  return defineRoute({
    ...all,
    path: '/v1/consumer/auth-attempts',
    operationId: 'listOwnAuthenticationAttempts',
    summary: 'List your own authentication attempts',
    description: `All attempts with your keys, including failed ones. ${description}`,
    permission: { anyCredentials: true },
    request: { query: ownQuery },
    handle: ({ query: sent, consumer }) =>
      list({ ...sent, consumer_id: (consumer as Consumer).id }, consumer as Consumer, context, cursors),
  });
}

async function list(
  sent: Static<typeof query> & { ofConsumers?: AttemptQuery['ofConsumers'] },
  caller: Consumer,
  { audit, directory }: AttemptsContext,
  cursors: CursorCodec,
) {
  const { limit = defaultLimit, cursor, since: from, address, ...filters } = sent;
  const { consumer_id, result, api_key, request_id } = filters;
  const name = JSON.stringify(['auth-attempts', consumer_id, result, from, address, api_key, request_id]);
  const found = await audit.list(caller.id, {
    ...filters,
    ...(address !== undefined && { address: addressOf(address) }),
    ...(from !== undefined && { since: Date.parse(from) }),
    ...(cursor !== undefined && { after: cursors.decode(cursor, name) as string }),
    limit: limit + 1,
  });
  const show = (attempted: ListedAttempt) => {
    const { consumer_id: of } = attempted;
    const consumer_name = of === null ? null : (directory.consumer(of)?.name ?? null);
    return shown({ ...attempted, consumer_name, mode: modeOf(of) });
  };
  return pageAnswer(found, limit, show, (last) => cursors.encode(last.id, name));
}

function addressOf(text: string) {
  const address = normaliseAddress(text);
  if (isIP(address) === 0) {
    const message = 'must be an IPv4 or IPv6 address';
    throw new Problem('invalid_request', `The query isn't valid: address ${message}.`, {
      errors: [{ parameter: 'address', message }],
    });
  }
  return { address, network: networkOf(address) };
}
