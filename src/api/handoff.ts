import { randomUUID } from 'node:crypto';
import { Type } from 'typebox';
import type { Call } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import { confirm, type HandoffConfirmation, handOff } from '../handoff/handoff.ts';
import { readDetails } from '../resources/field-values.ts';
import { booking, quote } from '../resources/quotes-and-bookings.ts';
import type { Records } from '../resources/records.ts';
import type { Resource } from '../resources/resource.ts';
import { defineRoute, json, type RequiredPermission, type Route, type RouteAnswer } from './route.ts';
import { crmProblems } from './v1/records/context.ts';

const targets = { quote, booking };
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

export interface HandoffOptions {
  records: Records;
  /** For so long the same body without a key counts as a repeat; 0: never. */
  repeatWindowSeconds?: number;
}

/** The hand-off: an advisor's console sends the chosen search result, and it becomes a quote or a booking. */
export function handoffRoute({ records, repeatWindowSeconds = 0 }: HandoffOptions): Route {
  return defineRoute({
    method: 'POST',
    path: '/api/v1/handoff',
    operationId: 'handOff',
    tag: 'Hand-off',
    summary: 'Hand a chosen search result off to the CRM',
    description:
      'Writes the result as a quote or a booking and confirms it. `result.details` may hold any JSON object; it is ' +
      'stored digit for digit. Send an Idempotency-Key to be able to repeat the request safely.',
    permission: {
      anyOf: [
        { resource: 'quotes', action: 'write' },
        { resource: 'bookings', action: 'write' },
      ],
      byBody: permissionByType,
    },
    idempotencyKey: 'optional',
    repeatWindowSeconds,
    request: { body: requestBody },
    answers: {
      201: {
        description: 'The record exists in the CRM.',
        schema: confirmation,
        headers: { Location: 'Where the record can be read.' },
      },
    },
    problems: ['member_not_found', 'details_too_large', 'crm_rejected', ...crmProblems],
    reconcile: (externalId, call) => reconcile(records, externalId, call),
    prepare: (_body, bodyText) => readDetails(bodyText, ['result', 'details'], fields.details),
    admit: (call) => records.admit(call),
    async handle({ body, prepared: details, call, claim }) {
      const resource = targets[body.type];
      const externalId = claim?.externalId ?? randomUUID();
      await claim?.confirmOwnership();
      const confirmed = await handOff(
        records,
        {
          resource,
          tripId: body.trip_id.toLowerCase(),
          memberId: body.member_id.toLowerCase(),
          result: { name: body.result.name, source: body.result.source, details },
        },
        externalId,
        call,
      ).catch((error: unknown) => explain(error, externalId));
      return confirmationOf(resource, confirmed);
    },
  });
}

function confirmationOf({ collection }: Resource, confirmed: HandoffConfirmation): RouteAnswer {
  return json(201, confirmed, { location: `/v1/${collection}/${confirmed.external_id}` });
}

/** The confirmation of a hand-off that was interrupted, if its record exists. */
async function reconcile(records: Records, externalId: string, call: Call): Promise<RouteAnswer | undefined> {
  for (const resource of Object.values(targets)) {
    const record = await records.find(resource, externalId, call);
    if (record) return confirmationOf(resource, confirm(resource, record, externalId));
  }
  return undefined;
}

/**
 * The CRM's refusal in terms of the hand-off: some fields of the record are below `result` in its body. The External ID
 * lets the caller look the record up where the outcome is unknown.
 */
function explain(error: unknown, externalId: string): never {
  if (!(error instanceof Problem)) throw error;
  const { errors, ...facts } = error.facts;
  const placed = errors?.map((fault) => {
    if (!('pointer' in fault)) return fault;
    return { ...fault, pointer: fault.pointer.replace(/^#\/(name|source|details)\b/, '#/result/$1') };
  });
  throw new Problem(error.code, error.message, { ...facts, externalId, ...(placed && { errors: placed }) });
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
