import { Type } from 'typebox';
import {
  ageHeader,
  readFreshness,
  unchanged,
  unlessNotModified,
} from '../../../api/pipeline/request-head.ts';
import { defineRoute, type Route } from '../../../api/route.ts';
import { allows, type Consumer } from '../../../identity/consumers/consumer.ts';
import { visibleFields } from '../../../identity/consumers/permissions.ts';
import { type Call, isFieldVisible } from '../../../platform/base/call.ts';
import { crmProblems, Problem } from '../../../platform/base/problem.ts';
import { type Resources, resourcesOf } from '../../../records/mapping.ts';
import { findMembers, viewOfMember } from '../../../records/member-names.ts';
import { withMember } from '../../../records/members.ts';
import type { ReservationsOfTrip } from '../../../records/offers.ts';
import { booking, quote } from '../../../records/quotes-and-bookings.ts';
import { type FieldValues, oldest, type RecordList } from '../../../records/records.ts';
import { entityTag, representationSchema } from '../../../records/representation.ts';
import { createRepresentations } from '../../../records/shown-fields.ts';
import { targets } from '../../handoff/handoff.ts';
import { readableBy, viewOfHandoffFor } from '../../handoff/routes/accepted-handoffs.ts';
import { handoffSchema } from '../../handoff/routes/schemas.ts';
import type { CheckParts } from '../check.ts';

const most = 100;
/** In bytes of each kind: what is cut is told by `truncated`. */
const mostBytes = 4 * 1024 * 1024;

const { fields } = quote;
const list = (item: object, description: string) =>
  Type.Array(item as never, { maxItems: most, description });

const tripSchema = ({ quote: ofQuotes, booking: ofBookings, member }: Resources) =>
  Type.Object(
    {
      trip_id: fields.trip_id.schema,
      members: Type.Array(
        Type.Object(
          {
            id: fields.member_id.schema,
            first_name: Type.Union([Type.String({ maxLength: 255 }), Type.Null()], {
              description: 'Given name.',
              examples: ['Amara'],
            }),
            last_name: Type.Union([Type.String({ maxLength: 255 }), Type.Null()], {
              description: 'Family name.',
              examples: ['Okafor'],
            }),
          },
          { additionalProperties: false },
        ),
        { maxItems: 400, description: 'Whose trip it is. Empty without members:read.' },
      ),
      quotes: list(representationSchema(withMember(ofQuotes, member)), 'Newest first.'),
      bookings: list(representationSchema(withMember(ofBookings, member)), 'Newest first.'),
      reservations: list(
        Type.Object({}, { additionalProperties: true }),
        'As the list of reservations shows them.',
      ),
      handoffs: list(handoffSchema, 'Hand-offs that wait or have failed.'),
      truncated: Type.Boolean({
        description: 'Whether one of them has more; its list has the rest.',
      }),
    },
    { additionalProperties: false, title: 'Trip' },
  );

export interface TripParts extends CheckParts {
  reservations: () => ReservationsOfTrip | undefined;
}

const tagHeader = { ETag: 'Strong entity tag of the trip, for If-None-Match.' };

/** All that the caller may see of a trip, in one call to the CRM at most. */
export function tripRoute(tools: TripParts): Route {
  // None where the routes are only documented.
  const { resources: known }: Partial<Pick<TripParts, 'resources'>> = tools;
  return defineRoute({
    method: 'GET',
    path: '/v1/trips/:tripId',
    operationId: 'getTrip',
    tag: 'Hand-off',
    summary: 'Read a trip',
    description:
      'Quotes, bookings, reservations and hand-offs of the trip that the caller may read, and the names of its members. At most 100 ' +
      'of each.',
    permission: {
      anyOf: [
        { resource: 'quotes', action: 'read' },
        { resource: 'bookings', action: 'read' },
      ],
    },
    idempotencyKey: 'ignored',
    conditional: 'If-None-Match',
    takesAge: true,
    tool: {
      name: 'get_trip',
      description:
        'See a whole trip at once: its members, quotes, bookings, tables and the hand-offs that wait or have failed. Costs one call to ' +
        'Salesforce at most.',
    },
    request: {
      params: Type.Object({ tripId: fields.trip_id.schema }, { additionalProperties: false }),
    },
    answers: {
      200: { description: 'The trip.', schema: tripSchema(known ?? resourcesOf()), headers: tagHeader },
      304: unchanged(tagHeader),
    },
    problems: ['not_found', 'store_unavailable', ...crmProblems],
    async handle({ params, headers, consumer, call }) {
      call.freshness = readFreshness(headers);
      const reader = { consumer: consumer as Consumer, call };
      const answer = await readTrip(tools, params.tripId.toLowerCase(), reader);
      return unlessNotModified(headers['if-none-match'], answer);
    },
  });
}

interface Reader {
  consumer: Consumer;
  call: Call;
}

/** Throws `not_found`, and `Problem` of the CRM. */
async function readTrip(tools: TripParts, tripId: string, reader: Reader) {
  const [records, handoffs, tables] = await Promise.all([
    readRecords(tools, tripId, reader),
    readHandoffs(tools, tripId, reader),
    readReservations(tools, tripId, reader),
  ]);
  const all = [...records.lists.values(), tables, handoffs.rows];
  if (all.every((rows) => rows.length === 0)) throw notFound();
  const members = await readMembers(tools, [...records.members, ...handoffs.members], reader);
  const isCut = records.isCut || [tables, handoffs.rows].some((rows) => rows.length > most);
  // Records are JSON text already, digit for digit.
  const parts = {
    trip_id: JSON.stringify(tripId),
    members: JSON.stringify(members),
    quotes: `[${(records.lists.get('quotes') ?? []).join()}]`,
    bookings: `[${(records.lists.get('bookings') ?? []).join()}]`,
    reservations: JSON.stringify(tables.slice(0, most)),
    handoffs: JSON.stringify(handoffs.rows.slice(0, most)),
    truncated: String(isCut),
  };
  const body = `{${Object.entries(parts)
    .map(([name, text]) => `"${name}":${text}`)
    .join()}}`;
  const headers = { etag: entityTag(body), 'cache-control': 'private, no-cache', ...ageHeader(records) };
  return { status: 200, body, headers };
}

function seesTrips({ consumer }: Reader, collection: 'quotes' | 'bookings'): boolean {
  return (
    allows(consumer, collection, 'read') && isFieldVisible(visibleFields(consumer, collection), 'trip_id')
  );
}

async function readRecords({ records, resources }: TripParts, tripId: string, reader: Reader) {
  const { call } = reader;
  /** Values of the members by their External ID; undefined for those whose names are not shown. */
  const members: (FieldValues | undefined)[] = [];
  const wanted = [resources.quote, resources.booking].filter(({ collection }) =>
    seesTrips(reader, collection),
  );
  const showsMembers = (collection: string) => isFieldVisible(call.visibleFields?.(collection), 'member_id');
  const lists = wanted.map((resource): RecordList => {
    const write = createRepresentations(resource)(call.visibleFields?.(resource.collection));
    const represent = (values: FieldValues) => {
      if (showsMembers(resource.collection)) members.push(memberIn(values));
      return write(values);
    };
    const query = { filters: { trip_id: tripId }, limit: most, maxBytes: mostBytes, represent };
    return { resource: withMember(resource, resources.member), query };
  });
  const pages = lists.length === 0 ? [] : await records.listTogether(lists, call);
  return {
    lists: new Map(
      pages.map((page, index) => [wanted[index]?.collection, page.records.map((row) => row.json.toString())]),
    ),
    members,
    isCut: pages.some(({ hasMore }) => hasMore),
    ...oldest(pages),
  };
}

function memberIn(values: FieldValues): FieldValues | undefined {
  const id = values['member_id'];
  if (!id) return undefined;
  const { 'member.first_name': first_name = null, 'member.last_name': last_name = null } = values;
  return { id, first_name, last_name };
}

async function readHandoffs({ handoffs }: TripParts, tripId: string, reader: Reader) {
  const readable = readableBy(reader.consumer, undefined);
  for (const resource of [quote, booking] as const)
    if (!seesTrips(reader, resource.collection)) delete readable[resource.name];
  const found = await handoffs.list({ readable, tripId, isOpen: true, limit: most + 1 });
  return {
    rows: found.map((handoff) => viewOfHandoffFor(reader.consumer, handoff) as object),
    members: found.map(({ memberId, type }): FieldValues | undefined => {
      const isShown = isFieldVisible(visibleFields(reader.consumer, targets[type].collection), 'member_id');
      return memberId !== undefined && isShown ? { id: memberId } : undefined;
    }),
  };
}

async function readReservations({ reservations }: TripParts, tripId: string, reader: Reader) {
  if (!seesTrips(reader, 'bookings')) return [];
  return (await reservations()?.(tripId, most, reader.call)) ?? [];
}

async function readMembers(parts: TripParts, found: readonly (FieldValues | undefined)[], reader: Reader) {
  const { consumer, call } = reader;
  if (!allows(consumer, 'members', 'read')) return [];
  const members = new Map<string, FieldValues>();
  for (const values of found) {
    const id = values?.['id'];
    if (values !== undefined && id && !('first_name' in (members.get(id) ?? {}))) members.set(id, values);
  }
  const unnamed = [...members].flatMap(([id, values]) => ('first_name' in values ? [] : [id]));
  const named = await findMembers(parts.memberSource, unnamed, call, false);
  const visible = visibleFields(consumer, 'members');
  return [...members].map(([id, values]) => {
    const { first_name = null, last_name = null } =
      viewOfMember({ ...values, ...named.get(id) }, (name) => isFieldVisible(visible, name)) ?? {};
    return { id, first_name, last_name };
  });
}

function notFound(): Problem {
  return new Problem('not_found', "There's no trip with this id that these credentials can see.");
}
