import { type Static, Type } from 'typebox';
import {
  isConditional,
  requireMatch,
  tagBeside,
  tagHeader,
  unchanged,
  unlessNotModified,
} from '../../../api/pipeline/request-head.ts';
import { patterns } from '../../../api/pipeline/schema-faults.ts';
import { defineRoute, type Route } from '../../../api/route.ts';
import { type CursorCodec, includeParameter, requireMembers } from '../../../api/routes/page.ts';
import type { Call } from '../../../platform/base/call.ts';
import { crmProblems, Problem, type ProblemCode } from '../../../platform/base/problem.ts';
import { detailsTooLarge, namesFrom, readDetails } from '../../../records/field-values.ts';
import type { Resources } from '../../../records/mapping.ts';
import { type MemberSource, membersBeside } from '../../../records/member-names.ts';
import { booking, handedOffFields } from '../../../records/quotes-and-bookings.ts';
import type { Records } from '../../../records/records.ts';
import type { Resource } from '../../../records/resource.ts';
import { longestDetails } from '../booking-order.ts';
import type { NewReservation, Reservations } from '../reservations.ts';
import { type ReservationView, viewOfVisibleFields } from '../view.ts';
import { availabilityRoute, listRoute, memberOf } from './list.ts';
import { merchantsRoute } from './merchants.ts';
import {
  defaultMinutes,
  idParams,
  line,
  readStartAt,
  reservationName,
  reservationSchema,
  showStored,
  tableFields,
  viewAnswer,
} from './schemas.ts';

const time = '2027-03-02T16:05:12.000Z';

const reservationEventExamples = {
  'reservation.confirmed': reservationIn('confirmed', 'confirmed', 'confirmed'),
  'reservation.cancelled': reservationIn('cancelled', 'cancelled', 'cancelled'),
  'reservation.failed': reservationIn('failed', null, 'failed'),
  'reservation.needs_attention': reservationIn('needs_attention', 'pending', 'confirmed'),
};

function reservationIn(status: string, bookingStatus: string | null, dining: string): object {
  return {
    name: 'Casa Olivo: table for 4',
    created_at: time,
    updated_at: time,
    status,
    erased_at: undefined,
    booking: { id: 'b3c1b8a4-52f4-4d0e-9a51-0f4f9b3c7d21', status: bookingStatus },
    dining: {
      partner: 'dining',
      start_at: '2027-04-12T19:00:00.000Z',
      time_zone: 'Europe/Madrid',
      party_size: 4,
      booking_id: 'CO-51920',
      status: dining,
    },
  };
}

const { fields } = booking;
const name = (description: string, example: string) => line(40, description, example);

const requestBody = Type.Object(
  {
    trip_id: fields.trip_id.schema,
    member_id: fields.member_id.schema,
    name: reservationName,
    dining: Type.Object(
      {
        merchant_id: tableFields.merchantId,
        service_id: tableFields.serviceId,
        start_at: tableFields.startAt,
        party_size: tableFields.partySize,
        duration_minutes: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 1440,
            default: defaultMinutes,
            description: 'How long the table is kept.',
            examples: [defaultMinutes],
          }),
        ),
        guest: Type.Object(
          {
            given_name: name('Given name.', 'Amara'),
            family_name: name('Family name.', 'Okafor'),
            email: Type.String({
              format: 'email',
              maxLength: 254,
              description: 'Where the partner sends messages.',
              examples: ['amara.okafor.1@example.com'],
            }),
            phone: Type.String({
              pattern: patterns.phone.source,
              maxLength: 46,
              description:
                'Telephone number with + and the country code. Spaces, dots, dashes and parentheses are left out.',
              examples: ['+12025550143'],
            }),
          },
          { additionalProperties: false, description: 'The guest in whose name the table is.' },
        ),
      },
      { additionalProperties: false, description: 'The table that is wanted.' },
    ),
    details: Type.Optional({ ...fields.details.schema, examples: [{ occasion: 'birthday' }] }),
  },
  { additionalProperties: false, title: 'NewReservation' },
);

const partnerProblems: ProblemCode[] = ['partner_error', 'partner_unavailable', 'partner_timeout'];

const approvalAdvice =
  "a table can't wait for it. Tables need another consumer, which may write bookings without approval";

const all = { path: '/v1/reservations', tag: 'Reservations' } as const;
const one = { ...all, path: `${all.path}/:id` } as const;

export interface ReservationParts {
  reservations: Reservations;
  records: Records;
  resources: Pick<Resources, 'booking'>;
  memberSource: MemberSource;
  timeZones?: ReadonlyMap<string, string>;
}

export function reservationRoutes(parts: ReservationParts, cursors: CursorCodec): Route[] {
  const { reservations } = parts;
  return [
    merchantsRoute(reservations, cursors),
    listRoute(parts, cursors),
    availabilityRoute(reservations),
    createRoute(parts),
    readRoute(parts),
    cancelRoute(reservations),
  ];
}

function createRoute({ reservations, records, resources, timeZones }: ReservationParts): Route {
  return defineRoute({
    ...all,
    method: 'POST',
    operationId: 'createReservation',
    summary: 'Reserve a table, with its booking in the CRM',
    description:
      'Makes the CRM booking, books the table, and writes the outcome to the CRM booking. If the partner refuses, ' +
      'nothing is left behind. If the partner decides later, the reservation is `pending`: read it again. After a ' +
      '5xx the gateway may go on by itself; send the same request with the same Idempotency-Key to learn how it ended.',
    permission: { resource: 'bookings', action: 'write' },
    approvalAdvice,
    idempotencyKey: 'required',
    requested: { about: ['booking', 'reservation'], makes: true },
    tool: {
      name: 'reserve_table',
      description:
        'Book a table at the dining partner, with its booking in Salesforce, in the name of the guest, who may get a message from the partner. ' +
        'Only when the person wants it. Costs two calls to Salesforce. cancel_reservation cancels it, if the partner allows that. A ' +
        'status pending means that the partner decides later. Read on with get_reservation then.',
      isOpenWorld: true,
    },
    request: { body: requestBody },
    answers: {
      201: {
        description:
          'The table is booked, or waits for the partner (`pending`), and the CRM has its booking.',
        schema: reservationSchema,
        headers: { ...tagHeader, Location: 'Where the reservation can be read.' },
      },
    },
    problems: [
      'member_not_found',
      'details_too_large',
      'crm_rejected',
      'partner_rejected',
      'conflict',
      'not_found',
      ...crmProblems,
      ...partnerProblems,
    ],
    usedFields: ({ body }) => [
      ...handedOffFields,
      ...namesFrom(resources.booking, asHandedOff(body, reservations.partner)),
    ],
    showStored,
    prepare: (body, bodyText) => {
      const timeZone = timeZones?.get(body.dining.merchant_id) ?? null;
      return readOrder(body, bodyText, { partner: reservations.partner, timeZone }, resources.booking);
    },
    admit: (call) => records.admit(call),
    handle: ({ prepared, call, claim }) => reservations.create(prepared, claim, call),
    reconcile: (externalId) => reservations.requireAnswered(externalId),
  });
}

function readRoute({ reservations, memberSource }: ReservationParts): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getReservation',
    summary: 'Read a reservation',
    description:
      "Asks the partner and the CRM for the status of the table and of the booking. If one doesn't respond, its status is `unknown`.",
    permission: { resource: 'bookings', action: 'read' },
    idempotencyKey: 'ignored',
    conditional: 'If-None-Match',
    tool: {
      name: 'get_reservation',
      description:
        'See how a reservation of a table stands, at the partner and in the CRM. Costs one CRM call.',
      isOpenWorld: true,
    },
    request: { params: idParams, query: Type.Object(includeParameter, { additionalProperties: false }) },
    answers: {
      200: { description: 'The reservation.', schema: reservationSchema, headers: tagHeader },
      304: unchanged(tagHeader),
    },
    problems: ['not_found', 'store_unavailable', ...crmProblems],
    events: { resource: 'reservation', examples: reservationEventExamples },
    async handle({ params, query: { include }, headers, consumer, call }) {
      const view = await read(reservations, params.id.toLowerCase(), call);
      if (include) requireMembers(consumer, ['bookings']);
      const included = { include, source: memberSource, call };
      const beside = await membersBeside([view], memberOf, { ...included, mayCall: true });
      return unlessNotModified(headers['if-none-match'], shownAs(view, call, beside(view)));
    },
  });
}

function cancelRoute(reservations: Reservations): Route {
  return defineRoute({
    ...one,
    method: 'DELETE',
    operationId: 'cancelReservation',
    summary: 'Cancel a reservation',
    description:
      'Cancels the table, and then the booking in the CRM. If the partner refuses, nothing changes and the response is ' +
      '409. A reservation that is already cancelled gets the same response; it can still be read.',
    permission: { resource: 'bookings', action: 'delete' },
    approvalAdvice,
    idempotencyKey: 'required',
    requested: { about: ['booking', 'reservation'] },
    conditional: 'If-Match',
    tool: {
      name: 'cancel_reservation',
      description:
        'Cancel a reserved table at the partner, and its booking. Cannot be undone: the table may be gone at once, and the partner ' +
        'may refuse it late. Costs one CRM call.',
      isOpenWorld: true,
    },
    request: { params: idParams },
    answers: { 204: { description: 'Table and booking are cancelled.' } },
    problems: ['not_found', 'conflict', 'crm_rejected', ...crmProblems, ...partnerProblems],
    checkSeen: async ({ params, call }) => void (await read(reservations, params.id.toLowerCase(), call)),
    async handle({ params, headers: { 'if-match': expected }, call, claim }) {
      const id = params.id.toLowerCase();
      // An earlier run under this claim may have changed it already.
      if (!isConditional(expected) || claim.continued) return reservations.cancel(id, claim, call);
      const view = await read(reservations, id, call);
      requireMatch(expected, shownAs(view, call).headers.etag);
      return reservations.cancel(id, claim, call, new Date(view.updated_at));
    },
    reconcile: (externalId) => reservations.requireAnswered(externalId),
  });
}

function shownAs(view: ReservationView, call: Call, beside: object = {}) {
  const shown = viewOfVisibleFields(view, call.visibleFields?.(booking.collection));
  const own = viewAnswer(200, shown);
  if (Object.keys(beside).length === 0) return own;
  const { headers, ...answer } = viewAnswer(200, { ...shown, ...beside });
  return { ...answer, headers: { ...headers, etag: tagBeside(own.headers.etag, headers.etag) } };
}

async function read(reservations: Reservations, id: string, call: Call): Promise<ReservationView> {
  const view = await reservations.read(id, call);
  if (!view) throw new Problem('not_found', "There's no reservation with this id.");
  return view;
}

function asHandedOff(body: unknown, partner: string): object {
  const { dining, details, ...order } = { ...(body as Partial<Static<typeof requestBody>> | null) };
  const table = { duration_minutes: defaultMinutes, ...dining, partner, booking_id: '', status: '' };
  return {
    ...order,
    type: 'booking',
    result: { name: order.name, source: partner, details: { dining: table, details } },
  };
}

function readOrder(
  body: Static<typeof requestBody>,
  bodyText: string,
  { partner, timeZone }: { partner: string; timeZone: string | null },
  resource: Resource,
): NewReservation {
  const columns = resource.fields['details']?.columns;
  if (columns === undefined) throw new Error('a booking has no details');
  const { guest, ...table } = body.dining;
  const order = {
    tripId: body.trip_id.toLowerCase(),
    name: body.name,
    table: {
      memberId: body.member_id.toLowerCase(),
      merchantId: table.merchant_id,
      serviceId: table.service_id,
      timeZone,
      startAt: readStartAt(table.start_at, { pointer: '#/dining/start_at' }),
      partySize: table.party_size,
      durationMinutes: table.duration_minutes ?? defaultMinutes,
      guest: {
        givenName: guest.given_name,
        familyName: guest.family_name,
        email: guest.email,
        phone: guest.phone.replaceAll(/[^+\d]/g, ''),
      },
    },
  };
  const details = body.details && readDetails(bodyText, ['details'], resource);
  const { length, fits } = longestDetails({ order, details, partner }, columns);
  if (fits) return { order, details };
  throw detailsTooLarge('#/details', length, columns, resource.fit);
}

export function heldByReservation(id: string): Problem {
  const detail = `The booking belongs to the reservation ${id}. To cancel both, send DELETE /v1/reservations/${id}.`;
  return new Problem('conflict', detail);
}
