import { Type } from 'typebox';
import { maxGraceWindowHours } from '../../../consumers/rotation.ts';
import { defineRoute, json, type Route } from '../../route.ts';
import {
  apiKey,
  apiSecret,
  type ConsumersContext,
  consumerProblems,
  expiresAt,
  id,
  idParams,
  rotatedAt,
  tag,
} from './shared.ts';

const requestBody = Type.Object(
  {
    graceWindowHours: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: maxGraceWindowHours,
        description:
          'How long the pairs that are valid now stay valid, fractions allowed; 0 cuts them at once.',
        examples: [24],
      }),
    ),
  },
  { additionalProperties: false },
);

const rotation = Type.Object(
  {
    id,
    apiKey,
    apiSecret,
    rotatedAt,
    previous: Type.Union(
      [Type.Object({ apiKey, expiresAt }, { description: 'The pair that was active before.' }), Type.Null()],
      { description: 'The pair that was active before; null where there was none.' },
    ),
  },
  { title: 'Rotation', description: 'The new pair, and until when the old one is valid.' },
);

/** Gives a consumer a new pair, while the old one stays valid for the grace window. */
export function rotateConsumerRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/consumers/:id/rotate',
    operationId: 'rotateConsumer',
    tag,
    summary: "Rotate a consumer's credentials",
    description:
      'Makes a new pair, whose secret is shown this one time. Every pair that is active becomes rotated and stays valid ' +
      'for the grace window; a pair rotated earlier keeps its expiry or takes the new one, whichever is earlier. ' +
      'Without a body the grace window is that of the settings.',
    permission: { resource: 'consumers', action: 'write' },
    idempotencyKey: 'ignored',
    request: { params: idParams, body: requestBody },
    bodyOptional: true,
    answers: { 200: { description: 'The new pair is valid.', schema: rotation } },
    problems: consumerProblems,
    async handle({ params, body }) {
      return json(200, await administration.rotate(params.id, body.graceWindowHours));
    },
  });
}
