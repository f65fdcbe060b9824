import { Type } from 'typebox';
import { problemAnswer } from '../../../api/pipeline/answer.ts';
import { isFieldVisible, type VisibleFields } from '../../../platform/base/call.ts';
import { type ProblemCode, problems } from '../../../platform/base/problem.ts';
import { viewOfCreator } from '../../../records/created-by.ts';
import { memberBeside } from '../../../records/member-names.ts';
import { handedOffFields, quote } from '../../../records/quotes-and-bookings.ts';
import { entityTag } from '../../../records/representation.ts';
import { uuidSchema } from '../../../records/resource.ts';
import {
  approvalStatuses,
  handoffStatuses,
  keptAttempts,
  longestDetail,
  type StoredHandoff,
} from '../accepted.ts';
import { problemOf } from '../deliver.ts';

const example = '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f';

export const externalId = uuidSchema('External ID of the hand-off, and of its record in the CRM.', example);
export const handoffType = Type.Enum(['quote', 'booking'], {
  description: 'Type of record that the result becomes.',
});
export const handoffStatus = Type.Enum(handoffStatuses, {
  description:
    '`awaiting_approval`: another consumer has to approve it first. `accepted`: it waits, or is being delivered. `created`: ' +
    "the CRM has the record. `failed`: it wasn't created; `problem` says why. `cancelled`: it won't be delivered. " +
    '`rejected`: another consumer rejected it.',
});

const timestamp = (description: string) =>
  Type.String({ format: 'date-time', maxLength: 24, description, examples: ['2027-03-02T16:05:12.310Z'] });

const problem = Type.Object(
  {
    type: Type.String({ maxLength: 200, description: 'Path of the page that explains the problem.' }),
    title: Type.String({ maxLength: 200, description: 'The kind of problem.' }),
    status: Type.Integer({ minimum: 400, maximum: 599, description: 'The HTTP status that it stands for.' }),
    detail: Type.String({ maxLength: 4000, description: 'Explanation of the problem.' }),
    code: Type.String({ maxLength: 100, description: 'The stable name of the problem.' }),
    request_id: Type.String({ maxLength: 128, description: 'The X-Request-Id of the hand-off.' }),
  },
  {
    additionalProperties: true,
    description: 'The problem document that the hand-off would have been answered with.',
  },
);

const orNull = <T extends Type.TSchema>(schema: T, description: string, shown?: unknown) =>
  Type.Union([schema, Type.Null()], { description, ...(shown !== undefined && { examples: [shown] }) });
const nameOfConsumer = orNull(Type.String({ maxLength: 400 }), 'Its name.', 'Trip desk');
const person = orNull(
  Type.String({ maxLength: 1020 }),
  'The person, as named by X-Actor or as signed in.',
  'ana@example.com',
);
const verified = Type.Boolean({ description: 'True: the person signed in.', examples: [false] });
const consumerId = Type.String({ maxLength: 64, description: 'Id of the consumer.' });
/** Characters in the reason of a rejection at most. */
export const longestReason = 1000;

const attempt = Type.Object({
  number: Type.Integer({
    minimum: 1,
    maximum: 2_147_483_647,
    description: '1 is the first. One that was cut off is missing.',
    examples: [1],
  }),
  at: timestamp('When it started.'),
  duration_ms: Type.Integer({
    minimum: 0,
    maximum: 2_147_483_647,
    description: 'How long it took.',
    examples: [412],
  }),
  problem: orNull(
    Type.Object({
      code: Type.String({ maxLength: 100, description: 'The stable name of the problem.' }),
      detail: Type.String({ maxLength: longestDetail, description: 'The error in words.' }),
    }),
    "Why it wasn't created; null if it was.",
    null,
  ),
});

const approval = Type.Object({
  status: Type.Enum(approvalStatuses, {
    description: '`expired`: nobody decided in time.',
    examples: ['pending'],
  }),
  decided_by: orNull(
    Type.Object({ consumer_id: consumerId, consumer_name: nameOfConsumer, actor: person, verified }),
    'Who decided; null if nobody did.',
  ),
  decided_at: orNull(timestamp('When.'), 'When it was decided; null if it is undecided.'),
  reason: orNull(Type.String({ maxLength: longestReason }), 'Why it was rejected.'),
});

const request = Type.Object({
  trip_id: quote.fields.trip_id.schema,
  member_id: quote.fields.member_id.schema,
  created_by: Type.Object({
    consumer_id: consumerId,
    consumer_name: nameOfConsumer,
    actor: person,
    verified,
  }),
  result: Type.Object({
    name: quote.fields.name.schema,
    source: quote.fields.source.schema,
    details: Type.Optional(quote.fields.details.schema),
  }),
});

export const handoffSchema = Type.Object(
  {
    external_id: externalId,
    type: handoffType,
    status: handoffStatus,
    id: orNull(
      Type.String({ maxLength: 18, examples: ['a0B5g00000XyZ12EAF'] }),
      "The record's own id in the CRM; null until it is created.",
      'a0B5g00000XyZ12EAF',
    ),
    problem: orNull(problem, 'Why the CRM refused it; null unless it has failed.', null),
    attempts: Type.Integer({
      minimum: 0,
      maximum: 2_147_483_647,
      description: 'How many times delivery was attempted.',
      examples: [1],
    }),
    accepted_at: timestamp('When it was stored.'),
    completed_at: orNull(
      timestamp('When it was done.'),
      'When it was created, failed, cancelled or rejected; null while it waits.',
      '2027-03-02T16:05:13.020Z',
    ),
    valid_until: orNull(
      timestamp('When the offer ends.'),
      'When the offer ends, as the hand-off said.',
      '2030-03-02T18:00:00.000Z',
    ),
    approval: orNull(approval, 'Whether another consumer has approved it; null if none has to.', null),
    version: Type.String({
      maxLength: 22,
      description:
        'Changes when what will be written is replaced. Name it in a decision, so that you decide on nothing else.',
      examples: ['Zk3u0vQ7mXb2nR8tYw5pLs'],
    }),
    latest_attempts: Type.Optional(
      Type.Array(attempt, {
        maxItems: keptAttempts,
        description: 'The last ones, oldest first; only in the response for a single hand-off.',
      }),
    ),
    next_attempt_at: Type.Optional(
      orNull(
        timestamp('When it will be tried again.'),
        'When it will be tried again, in the response for a single hand-off; null if no time is set, because it is being tried, its turn ' +
          "comes next, it waits for the CRM, or it's done.",
        null,
      ),
    ),
    member: memberBeside,
    request: orNull(
      request,
      'Content to write, until it is created, cancelled or rejected; `details` only in the response for a single hand-off. If the ' +
        "credentials' permission names fields: null unless it names all of these, and `created_by` only if it names that.",
      null,
    ),
  },
  { additionalProperties: false, title: 'AcceptedHandoff', description: 'A hand-off that was answered 202.' },
);

const {
  id: _id,
  request: _request,
  member: _member,
  latest_attempts: _latest,
  next_attempt_at: _next,
  ...eventFields
} = handoffSchema.properties;
export const handoffEventSchema = Type.Object(eventFields);

export const acceptance = Type.Object(
  {
    type: handoffType,
    status: Type.Enum(['accepted', 'awaiting_approval'], {
      description: "It's stored, and delivered to the CRM: at once or once another consumer has approved it.",
    }),
    external_id: quote.fields.id.schema,
  },
  { additionalProperties: false, title: 'HandoffAcceptance' },
);

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
    valid_until: handoff.validUntil?.toISOString() ?? null,
    approval: approvalView(handoff),
    version: tagOf(handoff).slice(1, -1),
    request: requestView(handoff),
  };
}

function titleOf(code: ProblemCode): string {
  return code in problems ? `${problems[code].title}.` : code;
}

export function attemptsView({ latestAttempts = [], nextAttemptAt }: StoredHandoff, visible: VisibleFields) {
  const wordsOf = (code: ProblemCode, detail: string | null | undefined) =>
    visible === undefined ? (detail ?? titleOf(code)) : unseen;
  return {
    latest_attempts: latestAttempts.map(({ number, at, ms, code, detail }) => ({
      ...{ number, at, duration_ms: ms },
      problem: code && { code, detail: wordsOf(code, detail) },
    })),
    next_attempt_at: nextAttemptAt?.toISOString() ?? null,
  };
}

export function tagOf({ externalId: id, contentStamp }: StoredHandoff): string {
  return entityTag(`${id} ${contentStamp}`);
}

export type HandoffView = ReturnType<typeof viewOfHandoff>;

/**
 * View for a caller that sees these fields only. The words of the CRM about a refused hand-off may be about any field: only
 * the kind of problem is shown. The request is shown whole or not at all.
 */
export function withoutHiddenFields(view: HandoffView, visible: VisibleFields): HandoffView {
  if (visible === undefined) return view;
  const { problem: found, request: wanted } = view;
  return {
    ...view,
    problem: found && documentOf({ code: found.code, detail: unseen }, found.request_id),
    request: isRequestVisible(visible) ? wanted : null,
  };
}

const unseen = "These credentials can't see every field of the record.";

function approvalView({ approval: found }: StoredHandoff) {
  if (found === undefined) return null;
  const { status, decidedBy: decided_by = null, decidedAt, reason = null } = found;
  return { status, decided_by, decided_at: decidedAt?.toISOString() ?? null, reason };
}

const requestFields = [...handedOffFields, 'created_by'];

export function isRequestVisible(visible: VisibleFields): boolean {
  return requestFields.every((name) => isFieldVisible(visible, name));
}

/** Its record can still be made; what it is made of is erased once it is, or will not be. */
const undone: readonly StoredHandoff['status'][] = ['awaiting_approval', 'accepted', 'failed'];

function requestView(handoff: StoredHandoff) {
  const { status, tripId, memberId, name, source } = handoff;
  if (!undone.includes(status) || name === undefined) return null;
  const created_by = viewOfCreator(handoff);
  return { trip_id: tripId, member_id: memberId, created_by, result: { name, source } };
}

function problemView({ refusal, requestId }: StoredHandoff): Document | null {
  return refusal === undefined ? null : documentOf(refusal, requestId);
}

type Refusal = NonNullable<StoredHandoff['refusal']>;
type Document = Record<string, unknown> & { code: Refusal['code']; request_id: string };

function documentOf(refusal: Refusal, requestId: string): Document {
  return JSON.parse(problemAnswer(problemOf(refusal), requestId, true).body) as Document;
}

export function handoffEventData(handoff: StoredHandoff): object {
  const { id: _, request: __, ...shown } = viewOfHandoff(handoff);
  return shown;
}
