import { randomUUID } from 'node:crypto';
import { Type } from 'typebox';
import { readPreferences } from '../../../api/pipeline/prefer.ts';
import { defineRoute, json, type Route, type RouteAnswer } from '../../../api/route.ts';
import type { RequiredPermission } from '../../../identity/consumers/permissions.ts';
import type { Call } from '../../../platform/base/call.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { crmProblems } from '../../../platform/base/problems.ts';
import { readDetails } from '../../../records/field-values.ts';
import { quote } from '../../../records/quotes-and-bookings.ts';
import type { Records } from '../../../records/records.ts';
import { confirm, type HandoffConfirmation, targets } from '../handoff.ts';
import type { Handoffs } from '../handoffs.ts';
import { acceptedAnswer } from './accepted-handoffs.ts';
import { acceptance } from './schemas.ts';

const { fields } = quote;

const requestBody = Type.Object(
  {
    type: Type.Enum(['quote', 'booking'], { description: 'What the result becomes in the CRM.' }),
    trip_id: fields.trip_id.schema,
    member_id: fields.member_id.schema,
    result: Type.Object(
      { name: fields.name.schema, source: fields.source.schema, details: fields.details.schema },
      { additionalProperties: false, description: 'The search result that was chosen.' },
    ),
  },
  { additionalProperties: false, title: 'Handoff' },
);

const confirmation = Type.Object(
  {
    id: Type.String({
      description: "The CRM's own identifier of the record.",
      maxLength: 18,
      examples: ['a0B5g00000XyZ12EAF'],
    }),
    type: Type.Enum(['quote', 'booking'], { description: 'What the result became.' }),
    status: Type.Enum(['created'], { description: 'What happened.' }),
    external_id: fields.id.schema,
  },
  { additionalProperties: false, title: 'HandoffConfirmation' },
);

const answers = {
  201: {
    description: 'The record exists in the CRM.',
    schema: confirmation,
    headers: { Location: 'Where the record can be read.' },
  },
  202: {
    description: 'The hand-off is stored, and delivered when the CRM is available.',
    schema: acceptance,
    headers: {
      Location: 'Where the hand-off can be read.',
      'Preference-Applied': 'Absent where the request did not ask for it.',
    },
  },
};

export interface HandoffOptions {
  records: Records;
  handoffs: Handoffs;
  /** For so long the same body without a key counts as a repeat; 0: never. */
  repeatWindowSeconds?: number;
}

/** The hand-off: an advisor's console sends the chosen search result, and it becomes a quote or a booking. */
export function handoffRoute({ records, handoffs, repeatWindowSeconds = 0 }: HandoffOptions): Route {
  return defineRoute({
    method: 'POST',
    path: '/api/v1/handoff',
    operationId: 'handOff',
    tag: 'Hand-off',
    summary: 'Hand a chosen search result off to the CRM',
    description:
      'Writes the result as a quote or a booking and confirms it. `result.details` may hold any JSON object; it is ' +
      'stored digit for digit. Send an Idempotency-Key to be able to repeat the request safely. With ' +
      '`Prefer: respond-async` the hand-off is stored, answered 202, and delivered when the CRM is available.',
    permission: {
      anyOf: [
        { resource: 'quotes', action: 'write' },
        { resource: 'bookings', action: 'write' },
      ],
      byBody: permissionByType,
    },
    idempotencyKey: 'optional',
    repeatWindowSeconds,
    preferable: true,
    request: { body: requestBody },
    answers,
    problems: ['member_not_found', 'details_too_large', 'crm_rejected', 'store_unavailable', ...crmProblems],
    reconcile: (externalId, call) => reconcile(records, handoffs, externalId, call),
    prepare: (_body, bodyText) => readDetails(bodyText, ['result', 'details'], fields.details),
    admit: (call, { prefer }) => {
      // A hand-off that can be stored needs no CRM.
      const mustBeNow = handoffs.whenCrmIsUnavailable === 'refuse' && !readPreferences(prefer).respondAsync;
      if (mustBeNow) records.admit(call);
    },
    async handle({ body, prepared: details, headers, call, claim }) {
      const { respondAsync, waitSeconds } = readPreferences(headers.prefer);
      const externalId = claim?.externalId ?? randomUUID();
      await claim?.confirmOwnership();
      const request = {
        type: body.type,
        tripId: body.trip_id.toLowerCase(),
        memberId: body.member_id.toLowerCase(),
        result: { name: body.result.name, source: body.result.source, details },
      };
      const wish = { mayBeAccepted: respondAsync, waitSeconds, isContinued: claim?.continued === true };
      const answer = await handoffs.handOff(request, { ...wish, externalId }, call);
      if (answer !== 'accepted') return confirmationOf(answer);
      return acceptedAnswer(
        body.type,
        externalId,
        respondAsync ? { 'preference-applied': 'respond-async' } : {},
      );
    },
  });
}

function confirmationOf(confirmed: HandoffConfirmation): RouteAnswer {
  const { collection } = targets[confirmed.type];
  return json(201, confirmed, { location: `/v1/${collection}/${confirmed.external_id}` });
}

/** The answer to a hand-off that was interrupted, if it is stored or its record exists. */
async function reconcile(
  records: Records,
  handoffs: Handoffs,
  externalId: string,
  call: Call,
): Promise<RouteAnswer | undefined> {
  const accepted = await handoffs.find(externalId);
  if (accepted) return acceptedAnswer(accepted.type, externalId);
  for (const resource of Object.values(targets)) {
    const record = await records.findWithDeleted(resource, externalId, call);
    if (record) return confirmationOf(confirm(resource.name, record, externalId));
  }
  return undefined;
}

function permissionByType(body: unknown): RequiredPermission {
  const type = typeof body === 'object' && body !== null ? (body as { type?: unknown }).type : undefined;
  if (type === 'quote') return { resource: 'quotes', action: 'write' };
  if (type === 'booking') return { resource: 'bookings', action: 'write' };
  const message = type === undefined ? 'is missing' : 'must be one of quote, booking';
  throw new Problem('invalid_request', `The body's "type" ${message}.`, {
    errors: [{ pointer: '#/type', message }],
  });
}
