import { defineRoute, json, type Permission, type Route, type RouteAnswer } from '../../../api/route.ts';
import type { RequiredPermission } from '../../../identity/consumers/permissions.ts';
import { isObject } from '../../../platform/base/is-object.ts';
import type { Problem } from '../../../platform/base/problem.ts';
import { crmProblems, type Fault } from '../../../platform/base/problems.ts';
import { targets } from '../../handoff/handoff.ts';
import { withAllowedValues } from '../../handoff/routes/body.ts';
import { handoffBody } from '../../handoff/routes/handoff.ts';
import { type CheckedOffer, type CheckParts, checkOffers, isTypeOfHandoff } from '../check.ts';
import { placed } from '../refusals.ts';
import { mostItems, tripBody, twiceIn } from './hand-off-trip.ts';
import { checkAnswer } from './schemas.ts';

const description =
  'Tells at once all that the hand-off would be refused for, and warns of what may be unwanted. Writes nothing. Salesforce is asked ' +
  'at most whether the member exists. `ok` says that nothing is known against the hand-off; Salesforce may still refuse it.';

const permission: Permission = {
  anyOf: [
    { resource: 'quotes', action: 'write' },
    { resource: 'bookings', action: 'write' },
  ],
  byBody: (body) => permissionsOf(typesIn(body)),
};

const shared = {
  method: 'POST',
  tag: 'Hand-off',
  permission,
  idempotencyKey: 'ignored',
  tellsFaults: true,
  answers: {
    200: {
      description: 'What was found.',
      schema: checkAnswer,
      example: { ok: true, problems: [], warnings: [] },
    },
  },
  problems: ['store_unavailable', ...crmProblems],
} as const;

export function checkRoutes(parts: CheckParts): Route[] {
  return [checkHandoffRoute(parts), checkTripRoute(parts)];
}

function checkHandoffRoute(parts: CheckParts): Route {
  return defineRoute({
    ...shared,
    path: '/api/v1/handoff/check',
    operationId: 'checkHandoff',
    summary: 'Check a hand-off before it is made',
    description,
    request: { body: withAllowedValues(handoffBody, parts) },
    async handle({ body, bodyText, faults, consumer, call }) {
      const place = { bodyText, path: [] };
      const offers: CheckedOffer[] = faults.length > 0 ? [] : [{ body, place, placed: (problem) => problem }];
      return answerOf(
        await checkOffers(parts, { faults, offers, memberId: memberIn(body) }, { consumer, call }),
      );
    },
  });
}

function checkTripRoute(parts: CheckParts): Route {
  return defineRoute({
    ...shared,
    path: '/api/v1/handoffs/check',
    operationId: 'checkTripHandoff',
    summary: 'Check the hand-off of a trip before it is made',
    description,
    tool: {
      name: 'check_hand_off',
      description:
        'See what hand_off_trip would be refused for, and warnings such as a possible duplicate, before anything is written. Costs ' +
        'at most one call to Salesforce.',
    },
    request: { body: withAllowedValues(tripBody, parts) },
    async handle({ body, bodyText, faults, consumer, call }) {
      const offers = soundItems(body, faults).map(
        (index): CheckedOffer => ({
          body: {
            trip_id: body.trip_id,
            member_id: body.member_id,
            ...body.items[index],
          } as CheckedOffer['body'],
          place: { bodyText, path: ['items', String(index)] },
          placed: (problem) => placed(problem, index) as Problem,
        }),
      );
      const repeated = faults.length === 0 ? twiceIn(body) : [];
      const checked = await checkOffers(
        parts,
        { faults: [...faults, ...repeated], offers, memberId: memberIn(body) },
        { consumer, call },
      );
      return answerOf(checked);
    },
  });
}

function answerOf(checked: object): RouteAnswer {
  return json(200, checked);
}

/** The member, where it is a text at all. */
function memberIn(body: unknown): string | undefined {
  const id = isObject(body) ? body['member_id'] : undefined;
  return typeof id === 'string' ? id : undefined;
}

/** The positions of the items without a fault of the schema; none where what they share has one. */
function soundItems(body: unknown, faults: readonly Fault[]): number[] {
  const items = isObject(body) && Array.isArray(body['items']) ? body['items'] : [];
  const pointers = faults.flatMap((fault) => ('pointer' in fault ? [fault.pointer] : []));
  if (pointers.some((pointer) => !/^#\/items\/\d+/.test(pointer))) return [];
  return [...items.slice(0, mostItems).keys()].filter(
    (index) =>
      !pointers.some((pointer) => pointer === `#/items/${index}` || pointer.startsWith(`#/items/${index}/`)),
  );
}

function typesIn(body: unknown): unknown[] {
  if (!isObject(body)) return [];
  const { items } = body;
  return Array.isArray(items)
    ? items.slice(0, mostItems).map((item) => (isObject(item) ? item['type'] : undefined))
    : [body['type']];
}

/** What is not a type is told by the answer, and needs no permission. */
function permissionsOf(types: readonly unknown[]): RequiredPermission[] {
  const known = new Set(types.filter(isTypeOfHandoff));
  return [...known].map((type) => ({ resource: targets[type].collection, action: 'write' }));
}
