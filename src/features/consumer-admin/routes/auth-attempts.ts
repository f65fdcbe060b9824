import { isIP } from 'node:net';
import { Type } from 'typebox';
import type { CursorCodec } from '../../../api/pipeline/cursor.ts';
import { defineRoute, type Route } from '../../../api/route.ts';
import { defaultLimit, pageAnswer, pageParameters, pageSchema, shownAs } from '../../../api/routes/page.ts';
import { attemptResults } from '../../../identity/audit/attempt.ts';
import type { Audit } from '../../../identity/audit/audit.ts';
import { networkOf, normaliseAddress } from '../../../platform/base/networks.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { exampleKey, id, moment, orNull, since } from './schemas.ts';

const query = Type.Object(
  {
    ...pageParameters,
    consumer_id: Type.Optional(id),
    result: Type.Optional(
      Type.Enum(attemptResults, { description: 'How the attempt ended.', examples: ['wrong_secret'] }),
    ),
    address: Type.Optional(
      Type.String({
        maxLength: 64,
        format: 'text',
        description:
          'Address of the caller. It also finds the sums of what its network (of IPv6 the first 64 bits) sent beyond the limit.',
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
    since: since('Earlier attempts are left out.'),
  },
  { additionalProperties: false },
);

const attempt = Type.Object(
  {
    consumer_id: Type.Union([id, Type.Null()], { description: 'Null only when the key is unknown.' }),
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
      'Address of the caller; null in a sum of many addresses, and in attempts that earlier versions recorded.',
    ),
    user_agent: orNull(
      Type.String({ maxLength: 255, examples: ['partner-a/2.1'] }),
      'The User-Agent header, at most 255 characters; null where none was sent.',
    ),
    api_key: orNull(
      Type.String({ maxLength: 64, examples: [exampleKey] }),
      'The API key that was presented, of what is no API key the beginning; null where none was.',
    ),
    status: orNull(
      Type.Integer({ minimum: 100, maximum: 599, examples: [200] }),
      'HTTP status of the answer; null in attempts that earlier versions recorded.',
    ),
    count: Type.Integer({
      minimum: 1,
      maximum: 2_147_483_647,
      description:
        'How many attempts this stands for. More than 1 where an address failed more often than the limit, or a consumer ' +
        'was refused (403, 429), or needed no credentials, more than 60 times a minute: attempts beyond it are one entry for ' +
        'each minute and result, and the other fields are of the first of them.',
      examples: [1],
    }),
  },
  { title: 'AuthenticationAttempt', description: 'An attempt to authenticate, accepted or not.' },
);

const show = shownAs(attempt);

/** Lists the attempts to authenticate, and how each ended. */
export function listAuthAttemptsRoute(audit: Audit, cursors: CursorCodec): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/auth-attempts',
    operationId: 'listAuthenticationAttempts',
    tag: 'Administration',
    summary: 'List authentication attempts',
    description:
      'Newest first. Other replicas write theirs within a second. A cursor is good for the same filters only.',
    permission: { resource: 'consumers', action: 'read' },
    idempotencyKey: 'ignored',
    request: { query },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(attempt, 'AuthenticationAttemptPage', 'A page of authentication attempts.'),
      },
    },
    problems: ['invalid_cursor', 'store_unavailable'],
    async handle({ query: { limit = defaultLimit, cursor, since: from, address, ...filters } }) {
      const { consumer_id, result, api_key } = filters;
      const list = JSON.stringify(['auth-attempts', consumer_id, result, from, address, api_key]);
      const found = await audit.list({
        ...filters,
        ...(address !== undefined && { address: addressOf(address) }),
        ...(from !== undefined && { since: Date.parse(from) }),
        ...(cursor !== undefined && { after: cursors.decode(cursor, list) as string }),
        limit: limit + 1,
      });
      return pageAnswer(found, limit, show, (last) => cursors.encode(last.id, list));
    },
  });
}

function addressOf(text: string) {
  const address = normaliseAddress(text);
  if (isIP(address) === 0) {
    const message = 'must be an IPv4 or IPv6 address';
    throw new Problem('invalid_request', `The query is not valid: address ${message}.`, {
      errors: [{ parameter: 'address', message }],
    });
  }
  return { address, network: networkOf(address) };
}
