import { requireMatch } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import { type ConsumersContext, consumerProblems, idParams, tag, tagOf } from './shared.ts';

/** Revokes a consumer. Without If-Match its record is not even looked at: a broken one can be deleted too. */
export function removeConsumerRoute({ administration }: ConsumersContext): Route {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/consumers/:id',
    operationId: 'deleteConsumer',
    tag,
    summary: 'Revoke a consumer',
    description: 'Deletes the consumer: all its pairs are refused at once, on every replica.',
    permission: { resource: 'consumers', action: 'delete' },
    idempotencyKey: 'ignored',
    conditional: 'If-Match',
    request: { params: idParams },
    answers: { 204: { description: 'The consumer is gone.' } },
    problems: consumerProblems,
    async handle({ params, headers }) {
      const { 'if-match': expected } = headers;
      const precondition =
        expected === undefined
          ? undefined
          : (consumer: Parameters<typeof tagOf>[0]) => requireMatch(expected, tagOf(consumer));
      await administration.revoke(params.id, precondition);
      return { status: 204 };
    },
  });
}
