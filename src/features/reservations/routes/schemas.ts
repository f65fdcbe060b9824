import { Type } from 'typebox';
import type { StoredAnswer } from '../../../api/idempotency/keyed-request.ts';
import { problemAnswer, withContentType } from '../../../api/pipeline/answer.ts';
import { patterns } from '../../../api/pipeline/schema-faults.ts';
import type { Call } from '../../../platform/base/call.ts';
import { readMoment } from '../../../platform/base/moment.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { createdByFields } from '../../../records/created-by.ts';
import { memberBeside } from '../../../records/member-names.ts';
import { booking } from '../../../records/quotes-and-bookings.ts';
import { entityTag } from '../../../records/representation.ts';
import { uuidSchema } from '../../../records/resource.ts';
import { reservationStatuses } from '../plan.ts';
import type { Answers } from '../reservations.ts';
import { type ReservationView, viewOfVisibleFields } from '../view.ts';

const { fields } = booking;
const example = 'b3c1b8a4-52f4-4d0e-9a51-0f4f9b3c7d21';

const reservationId = uuidSchema(
  'Id of the reservation, and External ID of its booking in the CRM.',
  example,
);

export const idParams = Type.Object({ id: reservationId }, { additionalProperties: false });

export const defaultMinutes = 90;

export const line = (maxLength: number, description: string, sample: string) =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: patterns.notBlank.source,
    format: 'text',
    description,
    examples: [sample],
  });

export const tableFields = {
  merchantId: line(255, "The partner's id of the restaurant.", 'casa-olivo-7'),
  serviceId: line(255, "The partner's id of the service to book.", 'table'),
  startAt: Type.String({
    format: 'date-time',
    // The partner counts in whole seconds.
    pattern: patterns.utcSeconds.source,
    maxLength: 30,
    description: 'When the table is wanted: RFC 3339 in UTC (it ends in Z), whole seconds.',
    examples: ['2030-12-06T19:00:00.000Z'],
  }),
  partySize: Type.Integer({ minimum: 1, maximum: 50, description: 'How many guests.', examples: [4] }),
};

/** `start_at` in UTC; `where` names it in a problem. The partner counts seconds since 1970: throws `invalid_request` before that. */
export function readStartAt(text: string, where: { pointer: string } | { parameter: string }): string {
  const ms = readMoment(text);
  if (ms !== undefined && ms >= 0) return new Date(ms).toISOString();
  const message = 'must not be before 1970';
  throw new Problem('invalid_request', `The request isn't valid: start_at ${message}.`, {
    errors: [{ ...where, message }],
  });
}

const moment = { format: 'date-time', maxLength: 24 };
const timestamp = (description: string) =>
  Type.String({ ...moment, description, examples: ['2026-11-27T10:15:00.000Z'] });
const orNull = (schema: Type.TSchema, description: string) =>
  Type.Union([schema, Type.Null()], { description });

export const reservationName = { ...fields.name.schema, examples: ['Casa Olivo: table for 4'] };

const { consumer_id, consumer_name, actor } = createdByFields;
const verified = Type.Boolean({ description: 'True: the person signed in.', examples: [false] });
const creator = Type.Union(
  [
    Type.Object(
      {
        consumer_id: consumer_id.schema,
        consumer_name: orNull(consumer_name.schema, 'Its name.'),
        actor: orNull(actor.schema, 'The person who acted at the consumer.'),
        verified,
      },
      { additionalProperties: false },
    ),
    Type.Null(),
  ],
  { description: consumer_id.within?.description ?? '' },
);

export const reservationSchema = Type.Object(
  {
    id: reservationId,
    status: Type.Enum(reservationStatuses, {
      description:
        '`pending`: it is being made, or the partner decides later. `confirmed`: table and CRM booking exist and ' +
        'refer to each other. `failed`: the partner declined it. `needs_attention`: the operator has to check it.',
      examples: ['confirmed'],
    }),
    trip_id: fields.trip_id.schema,
    member_id: fields.member_id.schema,
    name: reservationName,
    booking: Type.Object(
      {
        id: uuidSchema('External ID of the booking in the CRM.', example),
        status: orNull(
          Type.String({ maxLength: 255, examples: ['confirmed'] }),
          "The CRM's status; null if there is no booking, `unknown` while the CRM can't be reached.",
        ),
      },
      { additionalProperties: false, description: 'Its record in the CRM.' },
    ),
    dining: Type.Object(
      {
        partner: Type.String({
          maxLength: 40,
          description: 'The partner that has the table.',
          examples: ['dining'],
        }),
        booking_id: orNull(
          Type.String({ maxLength: 1000, examples: ['CO-51920'] }),
          "The partner's reference for the table; null if there is none.",
        ),
        status: orNull(
          Type.Enum(['pending', 'confirmed', 'cancelled', 'failed', 'unknown'], { examples: ['confirmed'] }),
          "The partner's status; null if there is no table, `unknown` while the partner can't be reached.",
        ),
        start_at: tableFields.startAt,
        time_zone: orNull(
          Type.String({ maxLength: 64, examples: ['Europe/Madrid'] }),
          "IANA name of the restaurant's time zone; null if unknown.",
        ),
        party_size: tableFields.partySize,
      },
      { additionalProperties: false, description: 'The table.' },
    ),
    member: memberBeside,
    created_by: creator,
    created_at: timestamp('When it was ordered.'),
    updated_at: timestamp('When the gateway last changed it.'),
    erased_at: Type.Optional(
      // Without an example: those of reservations have their data.
      Type.String({
        ...moment,
        description: 'When its personal data was erased; otherwise absent. `name` is then `(erased)`.',
      }),
    ),
  },
  {
    additionalProperties: false,
    title: 'Reservation',
    description:
      'A table, and the booking of it in the CRM. If the permission on bookings names fields, the others are left out, even ' +
      'if they are required here.',
  },
);

export function viewAnswer(status: number, view: object) {
  const body = JSON.stringify(view);
  return { status, body, headers: { etag: entityTag(body), 'cache-control': 'private, no-cache' } };
}

export function showStored(answer: StoredAnswer, call: Call): StoredAnswer {
  const visible = call.visibleFields?.(booking.collection);
  if (visible === undefined || answer.status !== 201) return answer;
  const shown = viewAnswer(
    answer.status,
    viewOfVisibleFields(JSON.parse(answer.body) as ReservationView, visible),
  );
  return { ...shown, headers: { ...answer.headers, ...shown.headers } };
}

export const reservationAnswers: Answers = {
  made(view) {
    const { status, body, headers } = viewAnswer(201, view);
    const location = `/v1/reservations/${view.id}`;
    return { status, body, headers: withContentType({ ...headers, location }, body) };
  },
  refused: (problem, requestId) => problemAnswer(problem, requestId, true),
  cancelled: () => ({ status: 204, headers: {}, body: '' }),
};
