import { Type } from 'typebox';
import { requireMatch } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import {
  type ConsumersContext,
  consumerAnswer,
  consumerProblems,
  consumerSchema,
  idParams,
  requested,
  tag,
  tagHeader,
  tagOf,
} from './shared.ts';

/** Changes what a consumer is called and what it may do; each member that is sent replaces the whole value. */
export function changeConsumerRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    method: 'PATCH',
    path: '/v1/admin/consumers/:id',
    operationId: 'updateConsumer',
    tag,
    summary: 'Change a consumer',
    description: 'Each member that is sent replaces the whole value. Valid at once, on every replica.',
    permission: { resource: 'consumers', action: 'write' },
    idempotencyKey: 'ignored',
    conditional: 'If-Match',
    request: {
      params: idParams,
      body: Type.Object(
        {
          name: Type.Optional(requested.name),
          permissions: Type.Optional(requested.permissions),
          certificateFingerprints: Type.Optional(requested.certificateFingerprints),
        },
        { additionalProperties: false, minProperties: 1 },
      ),
    },
    answers: {
      200: { description: 'The changed consumer.', schema: consumerSchema, headers: tagHeader },
    },
    problems: consumerProblems,
    async handle({ params, body, headers }) {
      const changed = await administration.change(params.id, body, (consumer) =>
        requireMatch(headers['if-match'], tagOf(consumer)),
      );
      return consumerAnswer(changed);
    },
  });
}
