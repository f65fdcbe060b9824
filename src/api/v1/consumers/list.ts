import { Type } from 'typebox';
import { viewOfConsumer } from '../../../consumers/consumer-view.ts';
import { compareNewestFirst, type ListPosition } from '../../../consumers/directory-index.ts';
import type { CursorCodec } from '../../pipeline/cursor.ts';
import { defineRoute, type Route } from '../../route.ts';
import { defaultLimit, pageAnswer, pageParameters, pageSchema } from '../page.ts';
import { type ConsumersContext, consumerSchema, tag } from './shared.ts';

const list = 'consumers';

/** Lists consumers as this replica has them loaded, so that it works while the secrets manager is away. */
export function listConsumersRoute({ directory }: ConsumersContext, cursors: CursorCodec): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/consumers',
    operationId: 'listConsumers',
    tag,
    summary: 'List consumers',
    description: 'Newest first, ties broken by id. A cursor is good for this list only.',
    permission: { resource: 'consumers', action: 'read' },
    idempotencyKey: 'ignored',
    request: { query: Type.Object(pageParameters, { additionalProperties: false }) },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(consumerSchema, 'ConsumerPage', 'A page of consumers.'),
      },
    },
    problems: ['invalid_cursor'],
    async handle({ query: { limit = defaultLimit, cursor } }) {
      const after = cursor === undefined ? undefined : (cursors.decode(cursor, list) as ListPosition);
      const consumers = directory.newestFirst();
      const start = after ? consumers.findIndex((consumer) => compareNewestFirst(consumer, after) > 0) : 0;
      const found = start === -1 ? [] : consumers.slice(start, start + limit + 1);
      return pageAnswer(found, limit, viewOfConsumer, ({ createdAt, id }) =>
        cursors.encode({ createdAt, id }, list),
      );
    },
  });
}
