import { Type } from 'typebox';
import { defineRoute, type Route, type RouteAnswer } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  maxPageBytes,
  pageParameters,
  pageSchema,
  requireMembers,
} from '../../../api/routes/page.ts';
import { allows, type Consumer, type PermissionResource } from '../../../identity/consumers/consumer.ts';
import type { Call } from '../../../platform/base/call.ts';
import { fieldText } from '../../../platform/base/json-text.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { type MemberSource, memberBeside, membersBeside } from '../../../records/member-names.ts';
import { type EventFeed, type FeedPage, feedOrders, type StoredEvent, writeEvent } from '../event-feed.ts';
import { eventTypes } from '../event-log.ts';
import { eventVisibilityOf, shownTo } from '../event-visibility.ts';
import { contentsOf, type FindContents, isOfHandoff } from '../handoff-contents.ts';

const idSchema = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 64,
    format: 'text',
    description,
    examples: ['0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f'],
  });

const includable = ['member', 'record'] as const;
type Included = (typeof includable)[number];

const query = Type.Object(
  {
    ...pageParameters,
    type: Type.Optional(
      Type.Array(Type.Enum(eventTypes), {
        minItems: 1,
        maxItems: eventTypes.length,
        description: 'Only events of this type; may be repeated.',
        examples: [['quote.updated']],
      }),
    ),
    resource_id: Type.Optional(idSchema('Only events of the resource with this id.')),
    order: Type.Optional(
      Type.Enum(feedOrders, {
        default: 'oldest_first',
        description:
          '`newest_first`: from the newest event back, to look at what has happened; its last page has no cursor. To follow the ' +
          'feed, read it oldest first.',
        examples: ['oldest_first'],
      }),
    ),
    since: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'Only events with this `occurred_at` or a later one.',
        examples: ['2027-03-01T08:00:00.000Z'],
      }),
    ),
    include: Type.Optional(
      Type.Array(Type.Enum(includable), {
        minItems: 1,
        maxItems: includable.length,
        description:
          '`member`: adds the member: id, names and e-mail address; needs members:read. `record`: adds to hand-offs the record, or ' +
          'what will be written. May be repeated.',
        examples: [['member']],
      }),
    ),
  },
  { additionalProperties: false },
);

export const eventSchema = Type.Object(
  {
    id: Type.String({
      maxLength: 64,
      description:
        'Id of the event. It stays the same wherever the event appears, so readers can skip repeats.',
      examples: ['evt_0f6c1d8a9b2e4f7c8d3a5b6e7f801922'],
    }),
    type: Type.Enum(eventTypes, { description: 'Type of the event.', examples: ['quote.updated'] }),
    occurred_at: Type.String({
      format: 'date-time',
      maxLength: 24,
      description: "When it happened; for CRM records, in whole seconds. The order is the feed's.",
      examples: ['2027-03-02T16:05:12.000Z'],
    }),
    mode: Type.Optional(
      Type.Enum(['test'], { description: "Present on test consumers' events.", examples: ['test'] }),
    ),
    resource: Type.Object(
      {
        type: Type.String({ maxLength: 64, description: 'Type of the resource.', examples: ['quote'] }),
        id: idSchema('Its id.'),
      },
      { additionalProperties: false, description: 'The resource it happened to.' },
    ),
    data: Type.Object(
      {},
      {
        additionalProperties: true,
        description:
          'The resource as it was then, as GET shows it to the caller; only its `id` once it is deleted.',
        examples: [{ id: '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f', status: 'confirmed' }],
      },
    ),
    data_omitted: Type.Optional(
      Type.Boolean({
        description:
          "True if the data is left out: it's too long, was erased, or the permission names fields and this isn't a record. Read " +
          'the resource.',
      }),
    ),
    member: memberBeside,
    record: Type.Optional(
      Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()], {
        description:
          'With `include=record`, for hand-offs: the record as it was last read, or what will be written; null if neither is known or ' +
          'the caller may see neither.',
        examples: [null],
      }),
    ),
  },
  { additionalProperties: false, title: 'Event', description: 'Something that happened to a resource.' },
);

const page = pageSchema(
  eventSchema,
  'EventPage',
  'A page of events. Oldest first, the last one has a `next_cursor`, too.',
);

export interface EventParts {
  feed: EventFeed;
  memberSource: MemberSource;
  /** Undefined without hand-offs. */
  findHeld: FindContents | undefined;
}

const withMembers = ['quotes', 'bookings'] as const;

export function listEventsRoute(parts: EventParts, cursors: CursorCodec): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/events',
    operationId: 'listEvents',
    tag: 'Events',
    summary: 'Read the feed of events',
    description:
      'Oldest first, unless `order` says otherwise. Keep `next_cursor`, which the last page has too, and continue from it later; no event is missed. ' +
      'A cursor only works with the same filters. A consumer sees events for what it may read.',
    permission: { anyCredentials: true },
    idempotencyKey: 'ignored',
    tool: {
      name: 'list_events',
      description:
        'See what has happened to members, quotes, bookings, hand-offs and reservations, by anyone, oldest first. Keep next_cursor ' +
        'and go on from it later. Costs no CRM call; with include, one at most.',
    },
    request: { query },
    answers: {
      200: {
        description: 'A page.',
        schema: page,
      },
    },
    problems: ['invalid_cursor', 'cursor_expired', 'permission_denied', 'store_unavailable'],
    async handle({
      query: { limit = defaultLimit, cursor, type, resource_id, order, since, include = [] },
      consumer: caller,
      call,
    }) {
      const consumer = caller as Consumer;
      if (include.includes('member')) requireMembers(consumer, withMembers.filter(isReadBy(consumer)));
      const isBack = order === 'newest_first';
      const types = type && [...new Set(type)].sort();
      const resourceId = resource_id?.toLowerCase();
      const list = JSON.stringify(['events', types, resourceId, since, ...(isBack ? [order] : [])]);
      const visibility = eventVisibilityOf(consumer);
      const found = await parts.feed.read({
        order,
        after: cursor === undefined ? undefined : (cursors.decode(cursor, list) as number),
        visibility,
        types,
        resourceId,
        since: since === undefined ? undefined : Date.parse(since),
        limit,
        maxBytes: maxPageBytes,
      });
      if (found === undefined) throw expired();
      const cursorAt = (sequence: number) => cursors.encode(sequence, list);
      const shown = { ...found, events: found.events.map((event) => shownTo(visibility, event)) };
      const write = await writerOf(shown.events.slice(0, limit), include, { consumer, call, ...parts });
      return pageOf(shown, write, limit, isBack, cursorAt);
    },
  });
}

function expired(): Problem {
  const detail = 'Events after this cursor have been deleted; they are kept for a limited time.';
  return new Problem('cursor_expired', detail);
}

function isReadBy(consumer: Consumer) {
  return (collection: PermissionResource) => allows(consumer, collection, 'read');
}

function restOf({ member }: { member?: object | null }): string {
  return member === undefined ? '' : `,"member":${JSON.stringify(member)}`;
}

/** Undefined for an event that does not fit on the page. */
type Write = (event: StoredEvent) => string | undefined;

/** Throws `store_unavailable`. */
async function writerOf(
  events: readonly StoredEvent[],
  include: readonly Included[],
  { consumer, call, ...parts }: EventParts & { consumer: Consumer; call: Call },
): Promise<Write> {
  const contentOf = await contentsOf(include.length === 0 ? [] : events, consumer, parts);
  const memberOf = (event: StoredEvent) => memberIn(isOfHandoff(event) ? contentOf(event) : event.data);
  const beside = await membersBeside(events, memberOf, {
    include: include.find((one) => one === 'member'),
    ...{ source: parts.memberSource, call, mayCall: true },
  });
  return (event) => {
    const content = contentOf(event);
    if (content === undefined) return undefined;
    const record = include.includes('record') && isOfHandoff(event) ? `,"record":${content}` : '';
    return writeEvent(event, consumer.id, restOf(beside(event)) + record);
  };
}

function memberIn(data: string | null | undefined): string | undefined {
  if (typeof data !== 'string') return undefined;
  const id: unknown = JSON.parse(fieldText(data, ['member_id']) ?? 'null');
  return typeof id === 'string' ? id.toLowerCase() : undefined;
}

/** The first ones that fit on a page, and at least one. */
function textsOf(events: readonly StoredEvent[], write: Write): string[] {
  const texts: string[] = [];
  let bytes = 0;
  for (const event of events) {
    const text = write(event);
    if (text === undefined) break;
    bytes += Buffer.byteLength(text);
    if (texts.length > 0 && bytes > maxPageBytes) break;
    texts.push(text);
  }
  return texts;
}

function pageOf(
  { events, searchedTo, isCut }: FeedPage,
  write: Write,
  limit: number,
  hasEnd: boolean,
  cursorAt: (at: number) => string,
): RouteAnswer {
  const texts = textsOf(events.slice(0, limit), write);
  const isWhole = texts.length === events.length;
  const hasMore = isCut || !isWhole;
  const last = isWhole ? searchedTo : (events[texts.length - 1]?.sequence ?? searchedTo);
  const next = hasMore || !hasEnd ? cursorAt(last) : null;
  const end = `],"next_cursor":${JSON.stringify(next)},"has_more":${hasMore}}`;
  return {
    status: 200,
    body: `{"data":[${texts.join(',')}${end}`,
    headers: { 'cache-control': 'private, no-cache' },
  };
}
