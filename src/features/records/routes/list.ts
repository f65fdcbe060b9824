import { Type } from 'typebox';
import { ageHeader, readFreshness } from '../../../api/pipeline/request-head.ts';
import { patterns } from '../../../api/pipeline/schema-faults.ts';
import { defineRoute, type Route, type RouteAnswer } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  listName,
  maxPageBytes,
  pageParameters,
  pageSchema,
} from '../../../api/routes/page.ts';
import { crmProblems, Problem, withSecondLook } from '../../../platform/base/problem.ts';
import { readFilter } from '../../../records/org-types.ts';
import type { FieldValues, ListQuery, RecordPage } from '../../../records/records.ts';
import { representationSchema, schemaName } from '../../../records/representation.ts';
import { filterSchema, type Resource } from '../../../records/resource.ts';
import { searchedFields, searchedTexts } from '../../../records/search.ts';
import { shownName } from '../../../records/shown-fields.ts';
import * as shared from './context.ts';

const comma = Buffer.from(',');

/** Lists records, newest first, a page at a time; no record that exists throughout is missed or repeated. */
export function listRoute(context: shared.RecordsContext, cursors: CursorCodec): Route {
  const { resource, records } = context;
  return defineRoute({
    method: 'GET',
    path: `/v1/${resource.collection}`,
    operationId: shared.operationId('list', { name: resource.collection }),
    tag: shared.tags[resource.collection],
    summary: `List ${resource.collection}`,
    description:
      'Newest first, ties broken by id; with `updated_since`, the oldest change comes first. A cursor only works ' +
      'for the same list with the same filters.',
    permission: { resource: resource.collection, action: 'read' },
    idempotencyKey: 'ignored',
    takesAge: true,
    tool: {
      name: resource.collection === 'members' ? 'search_members' : `list_${resource.collection}`,
      description: listed[resource.collection],
    },
    request: { query: querySchema(context) },
    answers: {
      200: {
        description: 'A page.',
        headers: shared.agedHeader,
        schema: pageSchema(
          representationSchema(context.withMember ?? resource),
          `${schemaName(resource)}Page`,
          `A page of ${resource.collection}.`,
        ),
      },
    },
    usedFields: ({ query }) => filteredFields(resource, query),
    problems: ['invalid_cursor', ...crmProblems],
    async handle({ query, headers, consumer, call }) {
      const { limit = defaultLimit, cursor, updated_since, q, include, ...given } = query as ListParameters;
      const search = q === undefined ? {} : { search: q.trim() };
      const updatedSince = updated_since === undefined ? {} : { updatedSince: wholeSecond(updated_since) };
      const filters = await withSecondLook(call, () => normalise(resource, given));
      const sorted = Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1));
      const list = listName(
        [resource.collection, sorted, updatedSince, search],
        call.visible(resource.collection),
      );
      const after = cursor === undefined ? {} : { after: cursors.decode(cursor, list) as Position };
      call.freshness = readFreshness(headers);
      const asked = shared.readAs(context, { include }, { consumer, call });
      const { represent } = asked;
      const wanted = {
        filters,
        limit,
        maxBytes: maxPageBytes,
        represent,
        ...search,
        ...updatedSince,
        ...after,
      };
      const page = await records.list(asked.resource, wanted, call);
      return pageAnswer(page, (position) => cursors.encode(position, list));
    },
  });
}

const listed = {
  members:
    "Find members, the guests for whom offers are made, by e-mail address or a part of their name or telephone number. Newest first. A member's id is the " +
    'member_id of other tools. Costs one CRM call.',
  quotes:
    'Find quotes, the offers that were made to members, newest first; filter by member, trip or status. Costs one CRM call. Long ' +
    'details are cut: get_quote has them.',
  bookings:
    'Find bookings, newest first; filter by member, trip or status. Costs one CRM call. Long details are cut: get_booking has them.',
};

const updatedSinceSchema = Type.String({
  format: 'date-time',
  maxLength: 40,
  description:
    'Only records with this `updated_at` or later, ordered by `updated_at` ascending, ties by id. Deleted records ' +
    "aren't in it; the event feed has them.",
  examples: ['2027-03-01T08:00:00.000Z'],
});

const searchSchema = (resource: Resource) =>
  Type.String({
    minLength: 2,
    maxLength: 100,
    pattern: patterns.twoOrMore.source,
    format: 'text',
    description: `Only records with this text in ${searchedIn(resource)}, ignoring case and leading or trailing white space.`,
    examples: [resource.collection === 'members' ? 'okaf' : 'miramar'],
  });
const listFormat = new Intl.ListFormat('en', { type: 'disjunction' });
const searchedIn = (resource: Resource) =>
  listFormat.format(searchedTexts(resource).map((names) => names.map((name) => `\`${name}\``).join(' and ')));

type ListParameters = {
  limit?: number;
  cursor?: string;
  updated_since?: string;
  q?: string;
  include?: string;
} & Record<string, string>;
type Position = NonNullable<ListQuery['after']>;

/** In bytes, as the records are, so that a large page is not decoded and encoded again. */
function pageAnswer(
  { records, hasMore, ...page }: RecordPage,
  cursorAfter: (position: Position) => string,
): RouteAnswer {
  const last = records.at(-1);
  const next = hasMore && last ? cursorAfter({ at: last.at, id: last.id }) : null;
  const data = records.flatMap(({ json }, index) => (index === 0 ? [json] : [comma, json]));
  const end = `],"next_cursor":${JSON.stringify(next)},"has_more":${hasMore}}`;
  const body = Buffer.concat([Buffer.from('{"data":['), ...data, Buffer.from(end)]);
  return { status: 200, body, headers: { 'cache-control': 'private, no-cache', ...ageHeader(page) } };
}

/** The last moment that the CRM takes, in milliseconds since 1970; the first is in 1700, and no record is older than 1970. */
const latest = Date.UTC(4000, 11, 31);

/** The first whole second that is not before the moment: changes have no finer times. */
function wholeSecond(text: string): string {
  const ms = Math.ceil(Date.parse(text) / 1000) * 1000;
  return new Date(Math.max(0, Math.min(ms, latest))).toISOString();
}

/** Throws `invalid_request` for a value that a field of the org can't have. */
function normalise({ fields, fit }: Resource, given: Record<string, string>): FieldValues {
  const filters: Record<string, string | null> = {};
  for (const [name, value] of Object.entries(given)) {
    const field = fields[name];
    const type = field?.added?.type;
    const read = type === undefined ? { value } : readFilter(type, value);
    if ('fault' in read) {
      const detail = `The query isn't valid: ${name} ${read.fault}.`;
      const errors = [{ parameter: name, message: read.fault }];
      throw new Problem('invalid_request', detail, { errors, ...fit.lookAgain(`filter by ${name}`) });
    }
    filters[name] = field?.kind === 'uuid' ? value.toLowerCase() : read.value;
  }
  return filters;
}

function filteredFields(resource: Resource, query: unknown): string[] {
  const { fields } = resource;
  return Object.keys(query as object).flatMap((name) => {
    const field = fields[name];
    if (name === 'q') return searchedFields(resource);
    return name === 'updated_since' ? ['updated_at'] : field?.filter ? [shownName(name, field)] : [];
  });
}

function querySchema(context: shared.ReadingContext) {
  const { resource } = context;
  const { fields } = resource;
  const filters = Object.entries(fields)
    .filter(([, { filter }]) => filter)
    .map(([name, field]) => [name, Type.Optional(filterSchema(field))] as const);
  return Type.Object(
    {
      ...pageParameters,
      q: Type.Optional(searchSchema(resource)),
      ...Object.fromEntries(filters),
      updated_since: Type.Optional(updatedSinceSchema),
      ...shared.includeOf(context),
    },
    { additionalProperties: false },
  );
}
