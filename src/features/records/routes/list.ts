import { Type } from 'typebox';
import type { CursorCodec } from '../../../api/pipeline/cursor.ts';
import { ageHeader, readFreshness } from '../../../api/pipeline/freshness.ts';
import { defineRoute, type Route, type RouteAnswer } from '../../../api/route.ts';
import {
  defaultLimit,
  listName,
  maxPageBytes,
  pageParameters,
  pageSchema,
} from '../../../api/routes/page.ts';
import { crmProblems } from '../../../platform/base/problems.ts';
import type { FieldValues, ListQuery, RecordPage } from '../../../records/records.ts';
import { representationSchema, schemaName } from '../../../records/representation.ts';
import type { Resource } from '../../../records/resource.ts';
import * as shared from './context.ts';

const comma = Buffer.from(',');

/** Lists records, newest first, a page at a time; no record that exists throughout is missed or repeated. */
export function listRoute(context: shared.RecordsContext, cursors: CursorCodec): Route {
  const { resource, records, represent } = context;
  return defineRoute({
    method: 'GET',
    path: `/v1/${resource.collection}`,
    operationId: shared.operationId('list', { name: resource.collection }),
    tag: shared.tags[resource.collection],
    summary: `List ${resource.collection}`,
    description:
      'Newest first, ties broken by id; with `updated_since` those that changed first come first. A cursor is good for ' +
      'the same list with the same filters only.',
    permission: { resource: resource.collection, action: 'read' },
    idempotencyKey: 'ignored',
    takesAge: true,
    request: { query: querySchema(resource) },
    answers: {
      200: {
        description: 'A page.',
        headers: shared.agedHeader,
        schema: pageSchema(
          representationSchema(resource),
          `${schemaName(resource)}Page`,
          `A page of ${resource.collection}.`,
        ),
      },
    },
    problems: ['invalid_cursor', ...crmProblems],
    async handle({ query, headers, call }) {
      const { limit = defaultLimit, cursor, updated_since, ...given } = query as ListParameters;
      const updatedSince = updated_since === undefined ? {} : { updatedSince: wholeSecond(updated_since) };
      const filters = normalise(resource, given);
      const sorted = Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1));
      const list = listName([resource.collection, sorted, updatedSince], call.visible(resource.collection));
      const after = cursor === undefined ? {} : { after: cursors.decode(cursor, list) as Position };
      const freshness = readFreshness(headers);
      call.freshness = freshness;
      const page = await records.list(
        resource,
        { filters, limit, maxBytes: maxPageBytes, represent, ...updatedSince, ...after },
        call,
      );
      return pageAnswer(page, ageHeader(freshness), (position) => cursors.encode(position, list));
    },
  });
}

const updatedSinceSchema = Type.String({
  format: 'date-time',
  maxLength: 40,
  description:
    'Only records whose `updated_at` is this or later; the order is `updated_at` ascending, ties by id. Deleted records ' +
    'are not told of: the feed of events does that.',
  examples: ['2027-03-01T08:00:00.000Z'],
});

type ListParameters = { limit?: number; cursor?: string; updated_since?: string } & Record<string, string>;
type Position = NonNullable<ListQuery['after']>;

/** In bytes, as the records are, so that a large page is not decoded and encoded again. */
function pageAnswer(
  { records, hasMore }: RecordPage,
  aged: { age?: string },
  cursorAfter: (position: Position) => string,
): RouteAnswer {
  const last = records.at(-1);
  const next = hasMore && last ? cursorAfter({ at: last.at, id: last.id }) : null;
  const data = records.flatMap(({ json }, index) => (index === 0 ? [json] : [comma, json]));
  const end = `],"next_cursor":${JSON.stringify(next)},"has_more":${hasMore}}`;
  const body = Buffer.concat([Buffer.from('{"data":['), ...data, Buffer.from(end)]);
  return { status: 200, body, headers: { 'cache-control': 'private, no-cache', ...aged } };
}

/** The last moment that the CRM takes, in milliseconds since 1970; the first is in 1700, and no record is older than 1970. */
const latest = Date.UTC(4000, 11, 31);

/** The first whole second that is not before the moment: changes have no finer times. */
function wholeSecond(text: string): string {
  const ms = Math.ceil(Date.parse(text) / 1000) * 1000;
  return new Date(Math.max(0, Math.min(ms, latest))).toISOString();
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
  return Type.Object(
    { ...pageParameters, ...Object.fromEntries(filters), updated_since: Type.Optional(updatedSinceSchema) },
    { additionalProperties: false },
  );
}
