import { Type } from 'typebox';
import { defineRoute, type Route } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  includeParameter,
  listName,
  pageAnswer,
  pageParameters,
  pageSchema,
  requireMembers,
} from '../../../api/routes/page.ts';
import { crmProblems } from '../../../platform/base/problem.ts';
import { type MemberSource, membersBeside } from '../../../records/member-names.ts';
import { booking } from '../../../records/quotes-and-bookings.ts';
import { reservationStatuses } from '../plan.ts';
import type { Reservations } from '../reservations.ts';
import { type ReservationView, viewOfVisibleFields } from '../view.ts';
import { defaultMinutes, readStartAt, reservationSchema, tableFields } from './schemas.ts';

const { fields } = booking;
const tag = 'Reservations';
const permission = { resource: 'bookings', action: 'read' } as const;

const filters = Type.Object(
  {
    ...pageParameters,
    status: Type.Optional(
      Type.Enum(reservationStatuses, { description: 'State of the reservation.', examples: ['confirmed'] }),
    ),
    member_id: Type.Optional(fields.member_id.schema),
    trip_id: Type.Optional(fields.trip_id.schema),
    consumer_id: Type.Optional(fields.consumer_id.schema),
    ...includeParameter,
  },
  { additionalProperties: false },
);

export function memberOf({ member_id }: ReservationView): string {
  return member_id;
}

export function listRoute(
  { reservations, memberSource }: { reservations: Reservations; memberSource: MemberSource },
  cursors: CursorCodec,
): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/reservations',
    tag,
    operationId: 'listReservations',
    summary: 'List reservations',
    description:
      'Newest first. `booking.status` and `dining.status` are what the gateway last knew; reading a single reservation asks ' +
      'the partner and the CRM. A cursor only works with the same filters.',
    permission,
    idempotencyKey: 'ignored',
    request: { query: filters },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(reservationSchema, 'ReservationPage', 'A page of reservations.'),
      },
    },
    usedFields: ({ query }) =>
      ['status', 'member_id', 'trip_id', 'consumer_id'].flatMap((name) =>
        Object.hasOwn(query as object, name) ? [name === 'consumer_id' ? 'created_by' : name] : [],
      ),
    problems: ['invalid_cursor', 'store_unavailable', ...crmProblems],
    async handle({ query, consumer, call }) {
      const { limit = defaultLimit, cursor, status, member_id, trip_id, consumer_id, include } = query;
      const memberId = member_id?.toLowerCase();
      const tripId = trip_id?.toLowerCase();
      const list = listName(
        ['reservations', status, memberId, tripId, consumer_id],
        call.visible('bookings'),
      );
      const after =
        cursor === undefined
          ? undefined
          : (cursors.decode(cursor, list) as { createdAt: string; id: string });
      const wanted = { status, memberId, tripId, consumerId: consumer_id, after, limit: limit + 1 };
      const found = await reservations.list(wanted, call);
      if (include) requireMembers(consumer, ['bookings']);
      const included = { include, source: memberSource, call };
      const beside = await membersBeside(found.slice(0, limit), memberOf, { ...included, mayCall: true });
      return pageAnswer(
        found,
        limit,
        (view) => ({ ...viewOfVisibleFields(view, call.visibleFields?.('bookings')), ...beside(view) }),
        ({ created_at, id }) => cursors.encode({ createdAt: created_at, id }, list),
      );
    },
  });
}

const wanted = Type.Object(
  {
    merchant_id: tableFields.merchantId,
    service_id: tableFields.serviceId,
    start_at: tableFields.startAt,
    party_size: tableFields.partySize,
  },
  { additionalProperties: false },
);

const availability = Type.Object(
  {
    available: Type.Boolean({ description: 'Whether the table is free now.' }),
    alternatives: Type.Array(tableFields.startAt, {
      maxItems: 7,
      description:
        'Times within an hour and a half when such a table is free, nearest first. Empty if the time asked for is ' +
        'available.',
    }),
  },
  { additionalProperties: false, title: 'TableAvailability', description: 'Whether a table is free.' },
);

export function availabilityRoute(reservations: Reservations): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/reservations/availability',
    tag,
    operationId: 'getTableAvailability',
    summary: 'Check whether a table is free',
    description:
      `Asks the partner about a table for ${defaultMinutes} minutes. What the partner never offers, such as a time when it is ` +
      "closed, isn't available. Nothing is held; the table can be gone a moment later.",
    permission,
    idempotencyKey: 'ignored',
    tool: {
      name: 'check_table',
      description:
        'Ask the dining partner whether a table is free at a time, and at which times near it. Nothing is held. Costs no call to ' +
        'Salesforce. list_restaurants has the merchant_id and service_id. Use reserve_table soon after.',
      isOpenWorld: true,
    },
    request: { query: wanted },
    answers: { 200: { description: "The partner's response.", schema: availability } },
    problems: ['not_found', 'partner_error', 'partner_unavailable', 'partner_timeout'],
    async handle({ query, call }) {
      const slot = {
        merchantId: query.merchant_id,
        serviceId: query.service_id,
        startAt: readStartAt(query.start_at, { parameter: 'start_at' }),
        partySize: query.party_size,
        durationMinutes: defaultMinutes,
      };
      return { status: 200, body: JSON.stringify(await reservations.availability(slot, call)) };
    },
  });
}
