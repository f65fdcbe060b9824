import { Type } from 'typebox';
import { problemAnswer } from '../../../api/pipeline/problem-answer.ts';
import { quote } from '../../../records/quotes-and-bookings.ts';
import { uuidSchema } from '../../../records/resource.ts';
import { handoffStatuses, type StoredHandoff } from '../accepted.ts';
import { problemOf } from '../handoffs.ts';

const example = '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f';

export const externalId = uuidSchema('External ID of the hand-off, and of its record in the CRM.', example);
export const handoffType = Type.Enum(['quote', 'booking'], { description: 'What the result becomes.' });
export const handoffStatus = Type.Enum(handoffStatuses, {
  description:
    '`accepted`: it waits, or is being delivered. `created`: the CRM has the record. `failed`: the CRM refuses it, as ' +
    '`problem` says. `cancelled`: it is not delivered.',
});

const timestamp = (description: string) =>
  Type.String({ format: 'date-time', maxLength: 24, description, examples: ['2027-03-02T16:05:12.310Z'] });

const problem = Type.Object(
  {
    type: Type.String({ maxLength: 200, description: 'Path of the page that explains the problem.' }),
    title: Type.String({ maxLength: 200, description: 'The kind of problem.' }),
    status: Type.Integer({ minimum: 400, maximum: 599, description: 'The HTTP status that it stands for.' }),
    detail: Type.String({ maxLength: 4000, description: 'What is wrong.' }),
    code: Type.String({ maxLength: 100, description: 'The stable name of the problem.' }),
    request_id: Type.String({ maxLength: 128, description: 'The X-Request-Id of the hand-off.' }),
  },
  {
    additionalProperties: true,
    description: 'A problem document, as the hand-off would have been answered.',
  },
);

export const handoffSchema = Type.Object(
  {
    external_id: externalId,
    type: handoffType,
    status: handoffStatus,
    id: Type.Union([Type.String({ maxLength: 18, examples: ['a0B5g00000XyZ12EAF'] }), Type.Null()], {
      description: "The CRM's own identifier of the record; null until it is created.",
      examples: ['a0B5g00000XyZ12EAF'],
    }),
    problem: Type.Union([problem, Type.Null()], {
      description: 'Why the CRM refused it; null unless it has failed.',
      examples: [null],
    }),
    attempts: Type.Integer({
      minimum: 0,
      maximum: 2_147_483_647,
      description: 'How often it was tried to deliver it.',
      examples: [1],
    }),
    accepted_at: timestamp('When it was stored.'),
    completed_at: Type.Union([timestamp('When it was created, failed or cancelled.'), Type.Null()], {
      description: 'When it was created, failed or cancelled; null while it waits.',
      examples: ['2027-03-02T16:05:13.020Z'],
    }),
  },
  { additionalProperties: false, title: 'AcceptedHandoff', description: 'A hand-off that was answered 202.' },
);

/** The 202 that says that a hand-off is stored. */
export const acceptance = Type.Object(
  {
    type: handoffType,
    status: Type.Enum(['accepted'], { description: 'It is stored, and delivered to the CRM.' }),
    external_id: quote.fields.id.schema,
  },
  { additionalProperties: false, title: 'HandoffAcceptance' },
);

/** A hand-off as GET shows it. */
export function viewOfHandoff(handoff: StoredHandoff) {
  const { externalId: external_id, type, status, nativeId, attempts, acceptedAt, completedAt } = handoff;
  return {
    external_id,
    type,
    status,
    id: nativeId ?? null,
    problem: problemView(handoff),
    attempts,
    accepted_at: acceptedAt.toISOString(),
    completed_at: completedAt?.toISOString() ?? null,
  };
}

function problemView({ refusal, requestId }: StoredHandoff): unknown {
  if (refusal === undefined) return null;
  return JSON.parse(problemAnswer(problemOf(refusal), requestId, true).body);
}

/** The same for the feed of events, where no identifier of the CRM's own may stand. */
export function handoffEventData(handoff: StoredHandoff): object {
  const { id: _, ...shown } = viewOfHandoff(handoff);
  return shown;
}
