import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import type { CursorCodec } from '../../../api/routes/page.ts';
import type { Audit } from '../../../identity/audit/audit.ts';
import type { ConsumerAdministration } from '../../../identity/consumers/administration.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { ConsumerDirectory } from '../../../identity/consumers/directory.ts';
import type { Allowances } from '../../../identity/rate-limits/allowances.ts';
import { listOwnAttemptsRoute } from './auth-attempts.ts';
import { authorityOf, conditionalAnswer, readAnswers } from './consumer-answer.ts';
import { id, ownConsumerSchema, ownRotationBody, rotation, usedAllowance } from './schemas.ts';

interface Context {
  administration: Pick<ConsumerAdministration, 'rotate'>;
  audit: Audit;
  allowances: Pick<Allowances, 'used'>;
  directory: Pick<ConsumerDirectory, 'newestFirst' | 'consumer'>;
}

const one = {
  path: '/v1/consumer',
  tag: 'Administration',
  idempotencyKey: 'ignored',
  permission: { anyCredentials: true },
} as const;

export function ownConsumerRoutes(context: Context, cursors: CursorCodec): Route[] {
  return [readRoute(context), rotateRoute(context), listOwnAttemptsRoute(context, cursors)];
}

function readRoute({ audit, allowances }: Context): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getOwnConsumer',
    summary: 'Read your own consumer',
    description: 'Shows what your credentials may do, and until when.',
    conditional: 'If-None-Match',
    request: {},
    answers: { ...readAnswers, 200: { ...readAnswers[200], schema: ownConsumerSchema } },
    problems: [],
    events: {
      resource: 'consumer',
      data: Type.Object({ id, allowance: usedAllowance }),
      examples: {
        'consumer.allowance_used': {
          allowance: { requests: 10_000, per: 'day', used: 8000, resets_at: '2027-03-03T00:00:00.000Z' },
        },
      },
    },
    async handle({ consumer, headers: { 'if-none-match': known } }) {
      return conditionalAnswer(known, consumer as Consumer, { audit, allowances });
    },
  });
}

function rotateRoute({ administration }: Context): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/rotate`,
    method: 'POST',
    operationId: 'rotateOwnConsumer',
    writesSecrets: true,
    summary: 'Rotate your own credentials',
    description:
      'Creates a new API key and secret; only this response shows the secret. Permissions and limits stay. The keys ' +
      'that are valid now stay valid for the grace window; without a body, it comes from the settings. Only the ' +
      'active pair can rotate; access tokens and already rotated keys are refused.',
    request: { body: ownRotationBody },
    bodyOptional: true,
    answers: { 200: { description: 'The new pair is valid.', schema: rotation } },
    problems: ['permission_denied', 'conflict', 'secrets_unavailable'],
    async handle({ body, ...request }) {
      const apiKey = request.headers['x-api-key'] as string | undefined;
      const authority = { ...authorityOf(request), isOwnRotation: true, apiKey };
      return json(200, await administration.rotate(authority.callerId, body.grace_window_hours, authority));
    },
  });
}
