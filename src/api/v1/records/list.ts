import { Type } from 'typebox';
import type { FieldValues, ListQuery, StoredRecord } from '../../../resources/records.ts';
import { representationSchema, schemaName } from '../../../resources/representation.ts';
import type { Resource } from '../../../resources/resource.ts';
import type { CursorCodec } from '../../pipeline/cursor.ts';
import { defineRoute, type Route } from '../../route.ts';
import { defaultLimit, pageParameters, pageSchema } from '../page.ts';
import * as shared from './shared.ts';

/** Lists records, newest first, a page at a time; no record that exists throughout is missed or repeated. */
export function listRoute(context: shared.RecordsContext, cursors: CursorCodec): Route {
  const { resource, records, represent } = context;
  return defineRoute({
    method: 'GET',
    path: `/v1/${resource.collection}`,
    operationId: `list${resource.collection[0]?.toUpperCase()}${resource.collection.slice(1)}`,
    tag: resource.collection,
    summary: `List ${resource.collection}`,
    description:
      'Newest first, ties broken by id. A cursor is good for the same list with the same filters only.',
    permission: { resource: resource.collection, action: 'read' },
    idempotencyKey: 'ignored',
    request: { query: querySchema(resource) },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(
          representationSchema(resource),
          `${schemaName(resource)}Page`,
          `A page of ${resource.collection}.`,
        ),
      },
    },
    problems: ['invalid_cursor', ...shared.crmProblems],
    async handle({ query, call }) {
      const { limit = defaultLimit, cursor, ...given } = query as ListParameters;
      const filters = normalise(resource, given);
      const list = JSON.stringify([
        resource.collection,
        Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1)),
      ]);
      const after = cursor === undefined ? {} : { after: cursors.decode(cursor, list) as Position };
      const found = await records.list(resource, { filters, limit: limit + 1, ...after }, call);
      const page = found.slice(0, limit);
      const hasMore = found.length > limit;
      const next = hasMore ? cursors.encode(positionOf(page.at(-1) as StoredRecord), list) : null;
      const data = page.map(({ values }) => represent(values)).join(',');
      const body = `{"data":[${data}],"next_cursor":${JSON.stringify(next)},"has_more":${hasMore}}`;
      return { status: 200, body, headers: { 'cache-control': 'private, no-cache' } };
    },
  });
}

type ListParameters = { limit?: number; cursor?: string } & Record<string, string>;
type Position = NonNullable<ListQuery['after']>;

function positionOf({ values }: StoredRecord): Position {
  return { createdAt: values['created_at'] as string, id: values['id'] as string };
}

function normalise({ fields }: Resource, given: Record<string, string>): FieldValues {
  const filters: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    filters[name] = fields[name]?.kind === 'uuid' ? value.toLowerCase() : value;
  }
  return filters;
}

function querySchema({ fields }: Resource) {
  const filters = Object.entries(fields)
    .filter(([, { filter }]) => filter)
    .map(([name, { schema }]) => [name, Type.Optional(schema)] as const);
  return Type.Object({ ...pageParameters, ...Object.fromEntries(filters) }, { additionalProperties: false });
}
