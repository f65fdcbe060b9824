import { type Static, Type } from 'typebox';
import { Problem, type ProblemCode } from '../../../base/problem.ts';
import { longestDetails } from '../../../reservations/booking-order.ts';
import type { NewReservation } from '../../../reservations/reservations.ts';
import { readDetails } from '../../../resources/details.ts';
import { booking } from '../../../resources/quotes-and-bookings.ts';
import type { Records } from '../../../resources/records.ts';
import { patterns } from '../../pipeline/formats.ts';
import { defineRoute, type Route } from '../../route.ts';
import { crmProblems, tagHeader } from '../records/shared.ts';
import { permission, type ReservationsContext, reservationSchema, tableFields } from './shared.ts';

const { fields } = booking;
const defaultMinutes = 90;
const name = (description: string, example: string) =>
  Type.String({
    minLength: 1,
    maxLength: 40,
    pattern: patterns.notBlank.source,
    format: 'text',
    description,
    examples: [example],
  });
const identifier = (description: string, example: string) =>
  Type.String({
    minLength: 1,
    maxLength: 255,
    pattern: patterns.notBlank.source,
    format: 'text',
    description,
    examples: [example],
  });

const requestBody = Type.Object(
  {
    trip_id: fields.trip_id.schema,
    member_id: fields.member_id.schema,
    name: fields.name.schema,
    dining: Type.Object(
      {
        merchant_id: identifier('The restaurant, as the partner calls it.', 'casa-olivo-7'),
        service_id: identifier('What is booked there.', 'table'),
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
            given_name: name('Given name.', 'Inés'),
            family_name: name('Family name.', 'Marín'),
            email: Type.String({
              format: 'email',
              maxLength: 254,
              description: 'Where the partner writes to.',
              examples: ['ines.marin@example.com'],
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
export const partnerProblems: ProblemCode[] = ['partner_error', 'partner_unavailable', 'partner_timeout'];

/** Books a table and notes it in the CRM, or does neither. */
export function createReservationRoute({
  reservations,
  records,
}: ReservationsContext & { records: Records }): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/reservations',
    operationId: 'createReservation',
    tag: 'reservations',
    summary: 'Book a table and note it in the CRM',
    description:
      'Makes the CRM booking, books the table, and writes the outcome to the CRM booking. Where the partner refuses, ' +
      'nothing is left behind. A partner that decides later leaves the reservation `pending`; read it again. After a ' +
      '5xx the service may go on by itself: send the same request with the same Idempotency-Key to learn how it ended.',
    permission: permission('write'),
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

function readOrder(body: Static<typeof requestBody>, bodyText: string, partner: string): NewReservation {
  const { guest, ...table } = body.dining;
  const order = {
    tripId: body.trip_id.toLowerCase(),
    name: body.name,
    table: {
      memberId: body.member_id.toLowerCase(),
      merchantId: table.merchant_id,
      serviceId: table.service_id,
      startAt: new Date(table.start_at).toISOString(),
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
  const { length, maxLength, fits } = longestDetails(order, details, partner);
  if (fits) return { order, details };
  const message = `take up to ${length} characters together with the table; the CRM holds at most ${maxLength}`;
  throw new Problem('details_too_large', `The details ${message}.`, {
    errors: [{ pointer: '#/details', message }],
  });
}
