import { type Static, Type } from 'typebox';
import type { Claim } from '../../../api/idempotency/ledger.ts';
import { problemAnswer } from '../../../api/pipeline/answer.ts';
import { defineRoute, json, type Permission, type Route, type RouteAnswer } from '../../../api/route.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { RequiredPermission } from '../../../identity/consumers/permissions.ts';
import type { Call } from '../../../platform/base/call.ts';
import { randomUUID, wallMs } from '../../../platform/base/chance.ts';
import { isObject, itemTexts } from '../../../platform/base/json-text.ts';
import { crmProblems, Problem } from '../../../platform/base/problem.ts';
import { namesFrom } from '../../../records/field-values.ts';
import { handedOffFields } from '../../../records/quotes-and-bookings.ts';
import { delayOfTest } from '../../../records/test-members.ts';
import { type HandoffRequest, type HandoffType, mayPass, targets } from '../../handoff/handoff.ts';
import { readPreferences } from '../../handoff/prefer.ts';
import { offerFields, readOffer, tripFields, withAllowedValues } from '../../handoff/routes/body.ts';
import { type HandoffParts, itemIdOf, mustBeApproved } from '../../handoff/routes/handoff.ts';
import {
  guardEach,
  handOffTogether,
  type ItemAnswer,
  idInTrip,
  notAtomic,
  refusalOfItem,
  type TripItem,
} from '../hand-off-trip.ts';
import { isPassing, placed, togetherOf, withoutHiddenStored } from '../refusals.ts';
import { tripConfirmation } from './schemas.ts';

export const mostItems = 25;

export const tripBody = Type.Object(
  {
    ...tripFields,
    atomic: Type.Optional(
      Type.Boolean({
        description: 'Whether all items are handed off or none (default), or each on its own.',
      }),
    ),
    items: Type.Array(Type.Object(offerFields, { additionalProperties: false }), {
      minItems: 1,
      maxItems: mostItems,
      description: 'The search results that were chosen.',
    }),
  },
  { additionalProperties: false, title: 'TripHandoff' },
);

export type TripBody = Static<typeof tripBody>;

const description =
  'Writes several results of one trip, for one member. By default all of them are written or none, in one transaction; with ' +
  '`atomic: false` each on its own, and the response says which were refused. Send an Idempotency-Key so that you can repeat the request ' +
  'safely. With `Prefer: respond-async`, and where an item needs approval, each item is stored as a hand-off of its own and ' +
  'answered 202.';

const confirmed = { schema: tripConfirmation, headers: { Location: 'Where the trip can be read.' } };

const answers = {
  200: { description: 'Every item was handed off before.', ...confirmed },
  201: { description: 'Something was created; each item says what became of it.', ...confirmed },
  202: {
    description: 'The items are stored, and delivered one by one.',
    schema: tripConfirmation,
    headers: {
      ...confirmed.headers,
      'Preference-Applied': "Absent if the request didn't ask for it.",
    },
  },
};

const problemCodes = [
  ...(['member_not_found', 'details_too_large', 'crm_rejected', 'offer_expired', 'conflict'] as const),
  ...(['approval_required', 'store_unavailable'] as const),
  ...crmProblems,
];

const permission: Permission = {
  anyOf: [
    { resource: 'quotes', action: 'write' },
    { resource: 'bookings', action: 'write' },
  ],
  byBody: permissionsOf,
};

export function handOffTripRoute(parts: HandoffParts): Route {
  return defineRoute({
    method: 'POST',
    path: '/api/v1/handoffs',
    operationId: 'handOffTrip',
    tag: 'Hand-off',
    summary: 'Hand off several results of a trip',
    description,
    permission,
    idempotencyKey: 'optional',
    requested: { about: ['quote', 'booking', 'handoff'], makes: true },
    preferable: true,
    tool: {
      name: 'hand_off_trip',
      description:
        'Write several chosen search results of one trip into Salesforce at once, as quotes or bookings: all of them or none, unless ' +
        'atomic is false. Check them with check_hand_off first. Give each item the reference that its source has for it: then the same ' +
        'item is found again and not made twice. It makes records that others see.',
    },
    request: { body: withAllowedValues(tripBody, parts) },
    answers,
    problems: problemCodes,
    usedFields: ({ body }, collection) => usedBy(parts, body, itemsIn(body), collection),
    showStored: (answer, call, { items }) =>
      withoutHiddenStored(answer, {
        resources: parts.resources,
        types: items.map(({ type }) => type),
        call,
      }),
    prepare: (body, bodyText) => readTrip(parts, body, bodyText),
    recordsOf: ({ prepared, consumer }, root) =>
      itemsOf(parts, prepared, consumer, root).map(
        ({ request, externalId }) => `${request.type} ${externalId}`,
      ),
    reconcile: (_, call, records) => reconcileTrip(parts, records, call),
    admit: (call, { headers, body: { atomic, items }, consumer }) => {
      const isStored =
        readPreferences(headers.prefer).respondAsync ||
        items.some(({ type }) => mustBeApproved(consumer, type));
      const mayBeStored = parts.handoffs.whenCrmIsUnavailable === 'accept' && atomic !== true;
      const mayWait = items.some(({ reference }) => reference !== undefined);
      if (!isStored && !mayBeStored && !mayWait) parts.records.admit(call);
    },
    async handle({ body, prepared, headers, consumer, call, claim }) {
      const preferences = readPreferences(headers.prefer);
      const items = itemsOf(parts, prepared, consumer, claim?.externalId ?? randomUUID());
      const request = { claim, call };
      const isDeferred =
        preferences.respondAsync || (await isStoredFirst(parts, items, { ...request, body }));
      const isTogether = goesTogether(body, isDeferred, claim);
      const each = { ...request, mayBeAccepted: isDeferred, waitSeconds: preferences.waitSeconds };
      const outcomes = await (isTogether
        ? handOffAll(parts, items, { ...request, mayBeStored: body.atomic === undefined })
        : handOffEach(parts, items, each));
      const tripId = body.trip_id.toLowerCase();
      requireAnswer(outcomes, claim);
      return tripAnswer({ items, outcomes, tripId, call, respondAsync: preferences.respondAsync });
    },
  });
}

/** Whether all items go in one call. Throws `invalid_request` where that is asked for and can't be. */
function goesTogether({ atomic }: TripBody, isDeferred: boolean, claim: Claim | undefined): boolean {
  if (!isDeferred) return atomic !== false;
  // A continued request looks first: its records may be there.
  if (atomic === true && claim?.continued !== true) throw notAtomic();
  return atomic === true;
}

interface Request {
  claim: Claim | undefined;
  call: Call;
}

async function isStoredFirst(
  { handoffs }: HandoffParts,
  items: readonly TripItem[],
  { claim, call, body }: Request & { body: TripBody },
): Promise<boolean> {
  const mustWait = ({ needsApproval, request: { memberId } }: TripItem) =>
    needsApproval || delayOfTest(memberId, call) !== undefined;
  if (items.some(mustWait)) return true;
  const mayBeStored = body.atomic === undefined && handoffs.whenCrmIsUnavailable === 'accept';
  if (!mayBeStored || claim?.continued !== true) return false;
  // An earlier try may have stored some: the others can't be refused together with them any more.
  const ids = items.map(({ externalId }) => externalId);
  return handoffs.hasStored(ids, claim.since);
}

/** All or none; where the CRM is away and `handoff.whenCrmIsUnavailable` says so, each is stored. */
async function handOffAll(
  parts: HandoffParts,
  items: readonly TripItem[],
  { mayBeStored, ...request }: Request & { mayBeStored: boolean },
): Promise<Outcome[]> {
  const since = request.claim?.since ?? wallMs();
  try {
    return await handOffTogether(parts, items, request);
  } catch (error) {
    const isStored = mayBeStored && parts.handoffs.whenCrmIsUnavailable === 'accept' && mayPass(error);
    if (!isStored) throw error;
    const isCallLost = error.facts.outcomeUnknown === true;
    return handOffEach(parts, items, {
      ...request,
      mayBeAccepted: true,
      waitSeconds: 0,
      isCallLost,
      since,
    });
  }
}

/** `isCallLost`: this request has made a call for all of them that may have been carried out. */
async function handOffEach(
  parts: HandoffParts,
  items: readonly TripItem[],
  {
    claim,
    call,
    since = claim?.since,
    isCallLost = false,
    ...options
  }: Request & { mayBeAccepted: boolean; waitSeconds: number; isCallLost?: boolean; since?: number },
): Promise<Outcome[]> {
  const isContinued = claim?.continued === true;
  const mayExist = isContinued || isCallLost;
  // The call may have been carried out, whatever keeps an item from being stored.
  const reasonOf = (error: unknown) =>
    isCallLost && error instanceof Problem && isPassing(error) ? error.asUnknown() : error;
  await claim?.confirmOwnership().catch((error: unknown) => {
    throw reasonOf(error);
  });
  const guardOf = claim && guardEach(items, claim, isCallLost);
  const settled = await Promise.allSettled(
    items.map(async (item): Promise<ItemAnswer> => {
      const { request, externalId, needsApproval } = item;
      const attempt = { externalId, isContinued, mayExist, needsApproval, since };
      const itemOptions = { ...options, ...attempt, claim: guardOf?.(item) };
      const answer = await parts.handoffs.handOff(request, itemOptions, call);
      return typeof answer === 'string'
        ? { type: request.type, status: answer, external_id: externalId }
        : answer;
    }),
  );
  return settled.map((outcome, index) => {
    if (outcome.status === 'fulfilled') return outcome.value;
    const item = items[index] as TripItem;
    const reason = reasonOf(outcome.reason);
    const error = refusalOfItem(parts, reason, { item, index, call });
    if (error instanceof Problem) return error;
    throw error;
  });
}

/**
 * Throws where no item has an answer. With a key also where one of them may pass: a repeat continues it, and finds the others. Without
 * one nothing is found again, so each has to be told.
 */
function requireAnswer(outcomes: readonly Outcome[], claim: Claim | undefined): void {
  const problems = outcomes.filter((outcome) => outcome instanceof Problem);
  const isAnswered = problems.length < outcomes.length;
  const isOver = claim === undefined || !problems.some(isPassing);
  if (!isAnswered || !isOver) throw togetherOf(problems, isAnswered);
}

function itemsOf(
  parts: HandoffParts,
  requests: readonly HandoffRequest[],
  consumer: Consumer | undefined,
  root: string,
): TripItem[] {
  return requests.map((request, index) => ({
    request,
    externalId: itemIdOf(parts, request, consumer) ?? idInTrip(root, index),
    needsApproval: mustBeApproved(consumer, request.type),
  }));
}

/** Throws `invalid_request` with the place of the item, also where two are the same item. */
function readTrip({ resources }: HandoffParts, body: TripBody, bodyText: string): HandoffRequest[] {
  const { trip_id, member_id } = body;
  const [repeated] = twiceIn(body.items);
  if (repeated !== undefined)
    throw new Problem('invalid_request', `The body isn't valid: ${repeated.pointer} ${repeated.message}.`, {
      errors: [repeated],
    });
  const texts = itemTexts(bodyText, ['items'], mostItems);
  return body.items.map((item, index) =>
    placedBy(index, () =>
      readOffer(resources[item.type], { trip_id, member_id, ...item }, texts[index] as string),
    ),
  );
}

export function twiceIn(items: readonly unknown[]): { pointer: string; message: string }[] {
  const seen = new Set<string>();
  return items.flatMap((item, index) => {
    const { type, reference, result } = isObject(item) ? item : {};
    const source = isObject(result) ? result['source'] : undefined;
    if (typeof reference !== 'string') return [];
    const name = JSON.stringify([type, source, reference]);
    const message = 'is the reference of another item of this type and source; hand each item off once';
    const fault = seen.has(name) ? [{ pointer: `#/items/${index}/reference`, message }] : [];
    seen.add(name);
    return fault;
  });
}

function placedBy<T>(index: number, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw placed(error, index);
  }
}

/** The permission to write for each type of the items. Throws `invalid_request` for a body without them. */
function permissionsOf(body: unknown): RequiredPermission[] {
  const types = new Set(itemsIn(body).map((item, index) => typeIn(item, index)));
  return [...types].map((type) => ({ resource: targets[type].collection, action: 'write' }));
}

function itemsIn(body: unknown): unknown[] {
  const items = isObject(body) ? body['items'] : undefined;
  if (Array.isArray(items) && items.length > 0) return items.slice(0, mostItems);
  const message = 'must be a list of 1 to 25 items';
  throw new Problem('invalid_request', `The body's "items" ${message}.`, {
    errors: [{ pointer: '#/items', message }],
  });
}

function typeIn(item: unknown, index: number): HandoffType {
  const type = isObject(item) ? item['type'] : undefined;
  if (isTypeOfHandoff(type)) return type;
  const message = type === undefined ? 'is missing' : 'must be one of quote, booking';
  throw new Problem('invalid_request', `The type of items/${index} ${message}.`, {
    errors: [{ pointer: `#/items/${index}/type`, message }],
  });
}

export function isTypeOfHandoff(type: unknown): type is HandoffType {
  return type === 'quote' || type === 'booking';
}

export function usedBy(
  { resources }: HandoffParts,
  body: unknown,
  items: readonly unknown[],
  collection: string,
): string[] {
  const { items: _, ...shared } = isObject(body) ? body : {};
  const used = items.flatMap((item) => {
    const type = isObject(item) ? item['type'] : undefined;
    if (!isTypeOfHandoff(type) || targets[type].collection !== collection) return [];
    return namesFrom(resources[type], { ...shared, ...(item as object) });
  });
  return [...handedOffFields, ...used];
}

type Outcome = ItemAnswer | Problem;

interface AnsweredTrip {
  items: readonly TripItem[];
  outcomes: readonly Outcome[];
  tripId: string;
  call: Call;
  respondAsync: boolean;
}

function tripAnswer({ items, outcomes, tripId, call, respondAsync }: AnsweredTrip): RouteAnswer {
  const answered = outcomes.map((outcome, index) =>
    outcome instanceof Problem ? failedItem(outcome, (items[index] as TripItem).request.type, call) : outcome,
  );
  const statuses = new Set(answered.map(({ status }) => status));
  const status = statusOf(statuses);
  const applied = status === 202 && respondAsync ? { 'preference-applied': 'respond-async' } : undefined;
  return confirmation(status, tripId, answered, applied);
}

function confirmation(status: number, trip_id: string, items: readonly object[], headers = {}): RouteAnswer {
  return json(status, { trip_id, items }, { location: `/v1/trips/${trip_id}`, ...headers });
}

function failedItem(problem: Problem, type: HandoffType, { requestId }: Call) {
  const { body } = problemAnswer(problem, requestId, false);
  return { type, status: 'failed', external_id: null, problem: JSON.parse(body) as unknown };
}

function statusOf(statuses: ReadonlySet<string>): number {
  if (statuses.has('accepted') || statuses.has('awaiting_approval')) return 202;
  return statuses.has('created') ? 201 : 200;
}

/**
 * The answer to a request that was interrupted, if an item of it waits or has a record. `names`: types and External IDs of its items.
 */
async function reconcileTrip(
  { records, resources, handoffs }: HandoffParts,
  names: readonly string[],
  call: Call,
): Promise<RouteAnswer | undefined> {
  const items = names.map((name) => {
    const [type, externalId] = name.split(' ') as [HandoffType, string];
    return { type, externalId, resource: resources[type] };
  });
  if (items.length === 0) return undefined;
  const stored = await Promise.all(items.map(({ externalId }) => handoffs.find(externalId)));
  const made = await records.findTogether(items, call);
  const tripId = stored.find(Boolean)?.tripId ?? made.find(Boolean)?.values['trip_id'];
  if (!tripId) return undefined;
  const answered = items.map(({ type, externalId: external_id }, index) => {
    const [waiting, record] = [stored[index], made[index]];
    if (record) return { id: record.nativeId, type, status: 'created', external_id };
    if (waiting) return { type, status: waiting.approval ? 'awaiting_approval' : 'accepted', external_id };
    return failedItem(interrupted(), type, call);
  });
  return confirmation(statusOf(new Set(answered.map(({ status }) => status))), tripId, answered);
}

function interrupted(): Problem {
  const detail =
    'The request was interrupted before it reached this item. Send the item again with a new key.';
  return new Problem('crm_timeout', detail);
}
