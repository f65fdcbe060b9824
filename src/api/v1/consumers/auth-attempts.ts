import { Type } from 'typebox';
import { attemptResults } from '../../../audit/attempt.ts';
import type { ListedAttempt } from '../../../audit/attempt-table.ts';
import type { Audit } from '../../../audit/audit.ts';
import type { CursorCodec } from '../../pipeline/cursor.ts';
import { readMoment } from '../../pipeline/moment.ts';
import { defineRoute, type Route } from '../../route.ts';
import { defaultLimit, pageAnswer, pageParameters, pageSchema } from '../page.ts';
import { id } from './schemas.ts';

const query = Type.Object(
  {
    ...pageParameters,
    consumer_id: Type.Optional(id),
    result: Type.Optional(
      Type.Enum(attemptResults, { description: 'How the attempt ended.', examples: ['wrong_secret'] }),
    ),
    since: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'Earlier attempts are left out.',
        examples: ['2027-03-01T08:00:00.000Z'],
      }),
    ),
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
    timestamp: Type.String({
      format: 'date-time',
      maxLength: 40,
      examples: ['2027-03-01T08:00:00.000Z'],
    }),
    request_id: Type.String({
      maxLength: 128,
      description: 'The X-Request-Id of the request.',
      examples: ['933bfcba-80b2-48dd-b31b-e58b7b06d3e3'],
    }),
    count: Type.Integer({
      minimum: 1,
      maximum: 2_147_483_647,
      description:
        'How many attempts this stands for. More than 1 where an address failed more often than the limit: attempts ' +
        'beyond it are one entry for each minute and result, and the other fields are of the first of them.',
      examples: [1],
    }),
  },
  { title: 'AuthenticationAttempt', description: 'An attempt to authenticate, accepted or not.' },
);

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
    async handle({ query: { limit = defaultLimit, cursor, since, ...filters } }) {
      const list = JSON.stringify(['auth-attempts', filters.consumer_id, filters.result, since]);
      const found = await audit.list({
        ...filters,
        ...(since !== undefined && { since: readMoment(since, 'since') }),
        ...(cursor !== undefined && { after: cursors.decode(cursor, list) as string }),
        limit: limit + 1,
      });
      return pageAnswer(found, limit, show, (last) => cursors.encode(last.id, list));
    },
  });
}

function show({ consumer_id, endpoint, result, timestamp, request_id, count }: ListedAttempt) {
  return { consumer_id, endpoint, result, timestamp, request_id, count };
}
