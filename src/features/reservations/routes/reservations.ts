import { type Static, Type } from 'typebox';
import { requireMatch, tagHeader, unlessNotModified } from '../../../api/pipeline/conditional.ts';
import type { CursorCodec } from '../../../api/pipeline/cursor.ts';
import { patterns } from '../../../api/pipeline/formats.ts';
import { defineRoute, type Route } from '../../../api/route.ts';
import type { Call } from '../../../platform/base/call.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { crmProblems, type ProblemCode } from '../../../platform/base/problems.ts';
import { detailsTooLarge, readDetails } from '../../../records/field-values.ts';
import { booking } from '../../../records/quotes-and-bookings.ts';
import type { Records } from '../../../records/records.ts';
import { longestDetails } from '../booking-order.ts';
import type { NewReservation, Reservations } from '../reservations.ts';
import { availabilityRoute, listRoute } from './list.ts';
import {
  defaultMinutes,
  idParams,
  line,
  readStartAt,
  reservationSchema,
  tableFields,
  viewAnswer,
} from './schemas.ts';

const { fields } = booking;
const name = (description: string, example: string) => line(40, description, example);

const requestBody = Type.Object(
  {
    trip_id: fields.trip_id.schema,
    member_id: fields.member_id.schema,
    name: fields.name.schema,
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
              description: 'Where the partner writes to.',
              examples: ['amara.okafor.1@example.com'],
            }),
            phone: Type.String({
              pattern: patterns.phone.source,
              maxLength: 16,
              description: 'Telephone number: + and digits, with the country code.',
              examples: ['+34952555010'],
            }),
          },
          { additionalProperties: false, description: 'In whose name the table is.' },
        ),
      },
      { additionalProperties: false, description: 'The table that is wanted.' },
    ),
    details: Type.Optional(fields.details.schema),
  },
  { additionalProperties: false, title: 'NewReservation' },
);

/** Codes of every operation that calls the partner. */
const partnerProblems: ProblemCode[] = ['partner_error', 'partner_unavailable', 'partner_timeout'];

const all = { path: '/v1/reservations', tag: 'Reservations' } as const;
const one = { ...all, path: `${all.path}/:id` } as const;

/** The operations on reservations, in the order of the documentation. */
export function reservationRoutes(
  reservations: Reservations,
  records: Records,
  cursors: CursorCodec,
): Route[] {
  return [
    listRoute(reservations, cursors),
    availabilityRoute(reservations),
    createRoute(reservations, records),
    readRoute(reservations),
    cancelRoute(reservations),
  ];
}

/** Books a table and notes it in the CRM, or does neither. */
function createRoute(reservations: Reservations, records: Records): Route {
  return defineRoute({
    ...all,
    method: 'POST',
    operationId: 'createReservation',
    summary: 'Book a table and note it in the CRM',
    description:
      'Makes the CRM booking, books the table, and writes the outcome to the CRM booking. Where the partner refuses, ' +
      'nothing is left behind. A partner that decides later leaves the reservation `pending`; read it again. After a ' +
      '5xx the service may go on by itself: send the same request with the same Idempotency-Key to learn how it ended.',
    permission: { resource: 'bookings', action: 'write' },
    idempotencyKey: 'required',
    request: { body: requestBody },
    answers: {
      201: {
        description: 'The table is booked, or waits for the partner (`pending`), and the CRM knows of it.',
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
    prepare: (body, bodyText) => readOrder(body, bodyText, reservations.partner),
    admit: (call) => records.admit(call),
    handle: ({ prepared, call, claim }) => reservations.create(prepared, claim, call),
  });
}

/** Reads a reservation with the current state of table and booking. */
function readRoute(reservations: Reservations): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getReservation',
    summary: 'Read a reservation',
    description:
      'Asks the partner and the CRM how their parts stand. A part that cannot be asked has the status `unknown`.',
    permission: { resource: 'bookings', action: 'read' },
    idempotencyKey: 'ignored',
    conditional: 'If-None-Match',
    request: { params: idParams },
    answers: {
      200: { description: 'The reservation.', schema: reservationSchema, headers: tagHeader },
      304: { description: 'It is still as If-None-Match names it.', headers: tagHeader },
    },
    problems: ['not_found', 'store_unavailable'],
    handle: async ({ params, headers, call }) =>
      unlessNotModified(headers['if-none-match'], await read(reservations, params.id.toLowerCase(), call)),
  });
}

/** Cancels the table, then its booking. */
function cancelRoute(reservations: Reservations): Route {
  return defineRoute({
    ...one,
    method: 'DELETE',
    operationId: 'cancelReservation',
    summary: 'Cancel a reservation',
    description:
      'Cancels the table, and then notes it in the CRM. Where the partner refuses, nothing changes and the answer is ' +
      '409. A reservation that is cancelled already is answered in the same way; it can still be read.',
    permission: { resource: 'bookings', action: 'delete' },
    idempotencyKey: 'required',
    conditional: 'If-Match',
    request: { params: idParams },
    answers: { 204: { description: 'Table and booking are cancelled.' } },
    problems: ['not_found', 'conflict', 'crm_rejected', ...crmProblems, ...partnerProblems],
    async handle({ params, headers: { 'if-match': expected }, call, claim }) {
      const id = params.id.toLowerCase();
      // An earlier run under this claim may have changed it already.
      if (expected !== undefined && !claim.continued)
        requireMatch(expected, (await read(reservations, id, call)).headers.etag);
      return reservations.cancel(id, claim, call);
    },
  });
}

async function read(reservations: Reservations, id: string, call: Call) {
  const view = await reservations.read(id, call);
  if (!view) throw new Problem('not_found', 'There is no reservation with this id.');
  return viewAnswer(200, view);
}

function readOrder(body: Static<typeof requestBody>, bodyText: string, partner: string): NewReservation {
  const { guest, ...table } = body.dining;
  const order = {
    tripId: body.trip_id.toLowerCase(),
    name: body.name,
    table: {
      memberId: body.member_id.toLowerCase(),
      merchantId: table.merchant_id,
      serviceId: table.service_id,
      startAt: readStartAt(table.start_at, { pointer: '#/dining/start_at' }),
      partySize: table.party_size,
      durationMinutes: table.duration_minutes ?? defaultMinutes,
      guest: {
        givenName: guest.given_name,
        familyName: guest.family_name,
        email: guest.email,
        phone: guest.phone,
      },
    },
  };
  const details = body.details && readDetails(bodyText, ['details'], fields.details);
  const { length, columns, fits } = longestDetails(order, details, partner);
  if (fits) return { order, details };
  throw detailsTooLarge('#/details', length, columns);
}

/** The refusal to change a booking that a reservation needs as it is. */
export function heldByReservation(id: string): Problem {
  const detail = `The booking belongs to the reservation ${id}. It is cancelled with that: DELETE /v1/reservations/${id}.`;
  return new Problem('conflict', detail);
}
