import { Type } from 'typebox';
import { mostErrors } from '../../../api/pipeline/schema-faults.ts';
import { quote } from '../../../records/quotes-and-bookings.ts';

const { id, trip_id } = quote.fields;

const itemAnswer = Type.Object({
  id: Type.Optional(
    Type.String({
      maxLength: 18,
      description: "The record's own id in the CRM; absent until there is one.",
      examples: ['a0B5g00000XyZ12EAF'],
    }),
  ),
  type: Type.Enum(['quote', 'booking'], { description: 'Type of record that the result becomes.' }),
  status: Type.Enum(['created', 'existing', 'updated', 'accepted', 'awaiting_approval', 'failed'], {
    description:
      '`existing`, `updated`: the item was handed off before. `accepted`, `awaiting_approval`: a hand-off of its own that waits. ' +
      '`failed`: it was refused; `problem` says why.',
  }),
  external_id: Type.Union([id.schema, Type.Null()], {
    description: 'External ID of the record; null if it was refused.',
    examples: ['0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f'],
  }),
  problem: Type.Optional(
    Type.Object(
      {},
      { additionalProperties: true, description: 'The problem document of an item that was refused.' },
    ),
  ),
});

export const tripConfirmation = Type.Object(
  {
    trip_id: trip_id.schema,
    items: Type.Array(itemAnswer, {
      maxItems: 25,
      description: 'One for each item of the request, in its order.',
    }),
  },
  { title: 'TripConfirmation' },
);

const fault = Type.Object(
  { message: Type.String({ maxLength: 4000, description: 'Explanation of the fault.' }) },
  { additionalProperties: true },
);

export const checkAnswer = Type.Object(
  {
    ok: Type.Boolean({ description: 'Whether nothing speaks against the hand-off.' }),
    problems: Type.Array(
      Type.Object({
        code: Type.String({
          maxLength: 100,
          description: 'Code of the problem that the hand-off would be answered with.',
        }),
        detail: Type.String({ maxLength: 4000, description: 'Explanation of the problem.' }),
        errors: Type.Array(fault, { maxItems: mostErrors, description: 'The places in the body.' }),
      }),
      { maxItems: 200, description: 'Everything that the hand-off would be refused for.' },
    ),
    warnings: Type.Array(
      Type.Object({
        code: Type.Enum(['possible_duplicate', 'offer_ends_soon'], { description: 'The kind of warning.' }),
        pointer: Type.String({ maxLength: 400, description: 'The place in the body.' }),
        detail: Type.String({ maxLength: 400, description: 'Explanation of the warning.' }),
        external_id: Type.Union([id.schema, Type.Null()], {
          description: 'The record that is there already.',
        }),
      }),
      { maxItems: 3000, description: "Warnings that wouldn't make it fail." },
    ),
  },
  { title: 'HandoffCheck' },
);
