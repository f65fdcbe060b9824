import { defineRoute, json, type Permission, type Route, type RouteAnswer } from '../../../api/route.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { Call } from '../../../platform/base/call.ts';
import { isObject, itemTexts } from '../../../platform/base/json-text.ts';
import { crmProblems, type Fault, type Problem } from '../../../platform/base/problem.ts';
import { delayOfTest } from '../../../records/test-members.ts';
import { type HandoffType, targets } from '../../handoff/handoff.ts';
import { withAllowedValues } from '../../handoff/routes/body.ts';
import { handoffBody, mustBeApproved } from '../../handoff/routes/handoff.ts';
import { type CheckedOffer, type CheckParts, checkOffers } from '../check.ts';
import { notAtomic } from '../hand-off-trip.ts';
import { placed } from '../refusals.ts';
import { isTypeOfHandoff, mostItems, tripBody, twiceIn, usedBy } from './hand-off-trip.ts';
import { checkAnswer } from './schemas.ts';

const description =
  'Lists everything that the hand-off would be refused for, and warns of what may be unwanted. Writes nothing. Salesforce is asked ' +
  'at most whether the member exists. `ok` means that nothing speaks against the hand-off; Salesforce may still refuse it.';

function permissionFor(offersIn: (body: unknown) => readonly unknown[]): Permission {
  return {
    anyOf: [
      { resource: 'quotes', action: 'write' },
      { resource: 'bookings', action: 'write' },
    ],
    byBody: (body) =>
      [...new Set(typesIn(offersIn(body)))].map((type) => ({
        resource: targets[type].collection,
        action: 'write',
      })),
  };
}

const shared = {
  method: 'POST',
  tag: 'Hand-off',
  idempotencyKey: 'ignored',
  tellsFaults: true,
  answers: {
    200: {
      description: 'The findings.',
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
    permission: permissionFor((body) => [body]),
    operationId: 'checkHandoff',
    summary: 'Check a hand-off before it is made',
    description,
    request: { body: withAllowedValues(handoffBody, parts) },
    usedFields: ({ body }, collection) => usedBy(parts, body, [body], collection),
    async handle({ body, bodyText, faults, consumer, call }) {
      const offers: CheckedOffer[] = [{ body, text: bodyText, placed: (problem) => problem }];
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
    permission: permissionFor(itemsOf),
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
    usedFields: ({ body }, collection) => usedBy(parts, body, itemsOf(body), collection),
    async handle({ body, bodyText, faults, consumer, call }) {
      const { items: _, ...trip }: Record<string, unknown> = body;
      const items = itemsOf(body);
      const texts = itemTexts(bodyText, ['items'], mostItems);
      const offers = items.map(
        (item, index): CheckedOffer => ({
          body: { ...trip, ...(isObject(item) && item) },
          text: texts[index] as string,
          placed: (problem) => placed(problem, index) as Problem,
        }),
      );
      const ofItems = [...twiceIn(items), ...atomicFaults(body, { consumer, call })];
      const memberId = memberIn(body);
      const what = { faults: [...faults, ...ofItems], offers, memberId };
      return answerOf(await checkOffers(parts, what, { consumer, call }));
    },
  });
}

function atomicFaults(
  body: { atomic?: unknown },
  { consumer, call }: { consumer: Consumer | undefined; call: Call },
): readonly Fault[] {
  const isStored =
    typesIn(itemsOf(body)).some((type) => mustBeApproved(consumer, type)) ||
    delayOfTest(memberIn(body) ?? '', call) !== undefined;
  return body.atomic === true && isStored ? (notAtomic().facts.errors ?? []) : [];
}

function itemsOf(body: unknown): unknown[] {
  const items = isObject(body) ? body['items'] : undefined;
  return Array.isArray(items) ? items.slice(0, mostItems) : [];
}

function answerOf(checked: object): RouteAnswer {
  return json(200, checked);
}

function memberIn(body: unknown): string | undefined {
  const id = isObject(body) ? body['member_id'] : undefined;
  return typeof id === 'string' ? id : undefined;
}

function typesIn(offers: readonly unknown[]): HandoffType[] {
  return offers.flatMap((offer) =>
    isObject(offer) && isTypeOfHandoff(offer['type']) ? [offer['type']] : [],
  );
}
