import { isNotModified } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import {
  type ConsumersContext,
  consumerAnswer,
  consumerProblems,
  consumerSchema,
  idParams,
  tag,
  tagHeader,
} from './shared.ts';

/** Reads one consumer from the secrets manager, so that an operator sees what was changed a moment ago. */
export function readConsumerRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/consumers/:id',
    operationId: 'getConsumer',
    tag,
    summary: 'Read a consumer',
    permission: { resource: 'consumers', action: 'read' },
    idempotencyKey: 'ignored',
    conditional: 'If-None-Match',
    request: { params: idParams },
    answers: {
      200: { description: 'The consumer.', schema: consumerSchema, headers: tagHeader },
      304: { description: 'The consumer is still as If-None-Match names it.', headers: tagHeader },
    },
    problems: consumerProblems,
    async handle({ params, headers }) {
      const answer = consumerAnswer(await administration.find(params.id));
      if (!isNotModified(headers['if-none-match'], answer.headers.etag)) return answer;
      return { status: 304, headers: answer.headers };
    },
  });
}
