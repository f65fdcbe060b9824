import { Type } from 'typebox';
import type { StoredAnswer } from '../../../api/idempotency/keyed-request.ts';
import { withoutHiddenFaults } from '../../../api/pipeline/answer.ts';
import { defineRoute, json, type Route, type RouteAnswer, type Tool } from '../../../api/route.ts';
import { type Consumer, needsApproval } from '../../../identity/consumers/consumer.ts';
import type { RequiredPermission } from '../../../identity/consumers/permissions.ts';
import { type Call, isFieldVisible, type VisibleFields } from '../../../platform/base/call.ts';
import { randomUUID } from '../../../platform/base/chance.ts';
import { crmProblems, type Fault, Problem, type ProblemCode } from '../../../platform/base/problem.ts';
import { namesFrom, pointerTo } from '../../../records/field-values.ts';
import type { MemberSource } from '../../../records/member-names.ts';
import { handedOffFields, quote } from '../../../records/quotes-and-bookings.ts';
import type { Resource } from '../../../records/resource.ts';
import {
  confirm,
  type HandoffConfirmation,
  type HandoffCrm,
  type HandoffRequest,
  type HandoffType,
  targets,
} from '../handoff.ts';
import type { Handoffs } from '../handoffs.ts';
import type { IdOfItem } from '../items.ts';
import { readPreferences } from '../prefer.ts';
import { acceptedAnswer } from './accepted-handoffs.ts';
import { offerFields, readOffer, tripFields, withAllowedValues } from './body.ts';
import { acceptance } from './schemas.ts';

const { fields } = quote;

export const handoffBody = Type.Object(
  {
    type: offerFields.type,
    ...tripFields,
    result: offerFields.result,
    valid_until: offerFields.valid_until,
    reference: offerFields.reference,
    on_repeat: offerFields.on_repeat,
  },
  { additionalProperties: false, title: 'NewHandoff' },
);

const confirmationWith = (statuses: readonly HandoffConfirmation['status'][]) =>
  Type.Object(
    {
      id: Type.String({
        description: "The record's own id in the CRM.",
        maxLength: 18,
        examples: ['a0B5g00000XyZ12EAF'],
      }),
      type: Type.Enum(['quote', 'booking'], { description: 'Type of record that the result became.' }),
      status: Type.Enum(statuses, {
        description: 'Outcome. `existing`, `updated`: the offer was handed off before.',
      }),
      external_id: fields.id.schema,
    },
    {
      additionalProperties: false,
      title: statuses[0] === 'created' ? 'HandoffConfirmation' : 'HandoffRepetition',
    },
  );

const answers = {
  200: {
    description: 'The offer was handed off before: its record is unchanged or updated.',
    schema: confirmationWith(['existing', 'updated']),
    headers: { Location: 'Where the record can be read.' },
  },
  201: {
    description: 'The record exists in the CRM.',
    schema: confirmationWith(['created']),
    headers: { Location: 'Where the record can be read.' },
  },
  202: {
    description: 'The hand-off is stored, and delivered when the CRM is available, or once it is approved.',
    schema: acceptance,
    headers: {
      Location: 'Where the hand-off can be read.',
      'Preference-Applied': "Absent if the request didn't ask for it.",
    },
  },
};

const tool: Tool = {
  name: 'hand_off',
  description:
    'Write a chosen search result into the CRM, as a quote (an offer to the guest) or a booking. Use it once the person has ' +
    "chosen. Costs one CRM call. It makes a record that others see; a booking can't be undone with these tools. Where " +
    'the answer has the status awaiting_approval, a person has to approve it first: read on with get_hand_off.',
};

export interface HandoffParts extends HandoffCrm {
  handoffs: Handoffs;
  memberSource: MemberSource;
  idOfItem: IdOfItem;
  repeatWindowSeconds: number;
}

const description =
  'Writes the result as a quote or a booking and confirms it. `result.details` may hold any JSON object; it is ' +
  'stored digit for digit. Send an Idempotency-Key so that you can repeat the request safely. With ' +
  '`Prefer: respond-async` the hand-off is stored, answered 202, and delivered when the CRM is available. Where the ' +
  "consumer's permission has `approval`, it is stored, answered 202 with the status `awaiting_approval`, and delivered " +
  'once another consumer has approved it.';

const problems = [
  'member_not_found',
  'details_too_large',
  'crm_rejected',
  'offer_expired',
  'store_unavailable',
  ...crmProblems,
] as const;

export function handoffRoute(parts: HandoffParts): Route {
  const { records, resources, handoffs, repeatWindowSeconds } = parts;
  return defineRoute({
    method: 'POST',
    path: '/api/v1/handoff',
    operationId: 'handOff',
    tag: 'Hand-off',
    summary: 'Hand a chosen search result off to the CRM',
    description,
    permission: {
      anyOf: [
        { resource: 'quotes', action: 'write' },
        { resource: 'bookings', action: 'write' },
      ],
      byBody: permissionByType,
    },
    idempotencyKey: 'optional',
    requested: { about: ['quote', 'booking', 'handoff'], makes: true },
    repeatWindowSeconds,
    preferable: true,
    tool,
    request: { body: withAllowedValues(handoffBody, parts) },
    answers,
    problems,
    reconcile: (externalId, call) => reconcile(parts, externalId, call),
    usedFields: ({ body }) => [...handedOffFields, ...namesFrom(resources[typeOf(body)], body)],
    showStored: (answer, call, { type }) => withoutHiddenStored(answer, resources[type], call),
    prepare: (body, bodyText) => readOffer(resources[body.type], body, bodyText),
    externalIdOf: ({ prepared, consumer }) => itemIdOf(parts, prepared, consumer),
    admit: (call, { headers, body, consumer }) => {
      // A hand-off that can be stored needs no CRM, nor does an item whose hand-off waits.
      const isStored =
        handoffs.whenCrmIsUnavailable === 'accept' || readPreferences(headers.prefer).respondAsync;
      const mustBeNow = !isStored && body.reference === undefined;
      if (mustBeNow && !mustBeApproved(consumer, body.type)) records.admit(call);
    },
    async handle({ prepared: request, headers, consumer, call, claim }) {
      const { respondAsync, waitSeconds } = readPreferences(headers.prefer);
      const externalId = claim?.externalId ?? itemIdOf(parts, request, consumer) ?? randomUUID();
      const options = {
        externalId,
        isContinued: claim?.continued === true,
        since: claim?.since,
        needsApproval: mustBeApproved(consumer, request.type),
        mayBeAccepted: respondAsync,
        waitSeconds,
        claim,
      };
      const answer = await handoffs.handOff(request, options, call).catch((error: unknown) => {
        throw withoutHidden(error, resources[request.type], call);
      });
      if (typeof answer !== 'string') return confirmationOf(answer);
      const applied = respondAsync ? { 'preference-applied': 'respond-async' } : undefined;
      return acceptedAnswer(request.type, externalId, answer, applied);
    },
  });
}

/**
 * A refusal as the caller may see it: what the CRM says of hidden fields is left out, and where the mapping takes a field from is shown
 * only to those who see the field. Without that place a refusal is about the record, of which others are shown nothing.
 */
export function withoutHidden(error: unknown, resource: Resource, call: Call): unknown {
  const visible = call.visibleFields?.(resource.collection);
  if (!(error instanceof Problem) || visible === undefined) return error;
  const { errors } = error.facts;
  const shown = errors?.map((fault) =>
    'pointer' in fault && isHidden(resource, visible, fault.pointer) ? { ...fault, pointer: '' } : fault,
  );
  const { code, message, facts } = error;
  return withoutHiddenFaults(
    new Problem(code, message, { ...facts, ...(shown && { errors: shown }) }),
    visible,
  );
}

function withoutHiddenStored(answer: StoredAnswer, resource: Resource, call: Call): StoredAnswer {
  if (answer.status < 400 || call.visibleFields?.(resource.collection) === undefined) return answer;
  const document = JSON.parse(answer.body) as { code: ProblemCode; detail: string; errors?: Fault[] };
  const { code, detail, errors } = document;
  const stored = new Problem(code, detail, errors && { errors });
  const { message, facts } = withoutHidden(stored, resource, call) as Problem;
  const shown = { ...document, detail: message, ...(facts.errors && { errors: facts.errors }) };
  return { ...answer, body: JSON.stringify(shown) };
}

function isHidden(resource: Resource, visible: VisibleFields, pointer: string): boolean {
  return Object.entries(resource.fields).some(
    ([name, { added }]) =>
      added?.from !== undefined && !isFieldVisible(visible, name) && pointerTo(added.from) === pointer,
  );
}

export function mustBeApproved(consumer: Consumer | undefined, type: HandoffType): boolean {
  return consumer !== undefined && needsApproval(consumer, targets[type].collection);
}

/** The External ID of the item; undefined for a hand-off without a reference. */
export function itemIdOf(
  { idOfItem }: Pick<HandoffParts, 'idOfItem'>,
  {
    tripId,
    type,
    result: { source },
    reference,
  }: Pick<HandoffRequest, 'tripId' | 'type' | 'reference'> & {
    result: { source: string };
  },
  consumer: Consumer | undefined,
): string | undefined {
  if (reference === undefined || consumer === undefined) return undefined;
  return idOfItem({ consumerId: consumer.id, tripId, type, source, reference });
}

function confirmationOf(confirmed: HandoffConfirmation): RouteAnswer {
  const { collection } = targets[confirmed.type];
  return json(confirmed.status === 'created' ? 201 : 200, confirmed, {
    location: `/v1/${collection}/${confirmed.external_id}`,
  });
}

async function reconcile(
  { records, resources, handoffs }: HandoffParts,
  externalId: string,
  call: Call,
): Promise<RouteAnswer | undefined> {
  const accepted = await handoffs.find(externalId);
  if (accepted)
    return acceptedAnswer(accepted.type, externalId, accepted.approval ? 'awaiting_approval' : 'accepted');
  for (const resource of [resources.quote, resources.booking]) {
    const record = await records.findWithDeleted(resource, externalId, call);
    if (record) return confirmationOf(confirm(resource.name, record, externalId));
  }
  return undefined;
}

function permissionByType(body: unknown): RequiredPermission[] {
  return [{ resource: targets[typeOf(body)].collection, action: 'write' }];
}

/** Throws `invalid_request` for a body without one. */
function typeOf(body: unknown): HandoffType {
  const type = typeof body === 'object' && body !== null ? (body as { type?: unknown }).type : undefined;
  if (type === 'quote' || type === 'booking') return type;
  const message = type === undefined ? 'is missing' : 'must be one of quote, booking';
  throw new Problem('invalid_request', `The body's "type" ${message}.`, {
    errors: [{ pointer: '#/type', message }],
  });
}
