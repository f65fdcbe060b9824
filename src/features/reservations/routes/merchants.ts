import { Type } from 'typebox';
import { defineRoute, type Route } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  pageAnswer,
  pageParameters,
  pageSchema,
} from '../../../api/routes/page.ts';
import { folded } from '../../../records/search.ts';
import { type Merchant, merchantSchema } from '../merchants.ts';
import type { Reservations } from '../reservations.ts';

const query = Type.Object(
  {
    ...pageParameters,
    q: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description: 'Part of the name or id of the restaurant, or of one of its services, ignoring case.',
        examples: ['olivo'],
      }),
    ),
  },
  { additionalProperties: false },
);

export function merchantsRoute(reservations: Reservations, cursors: CursorCodec): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/dining/merchants',
    tag: 'Reservations',
    operationId: 'listMerchants',
    summary: 'List restaurants',
    description:
      'Restaurants where tables can be booked, by name, and what is booked there. The dining partner protocol lists ' +
      "none, so a real partner's restaurants are those the operator has set.",
    permission: { resource: 'bookings', action: 'read' },
    idempotencyKey: 'ignored',
    tool: {
      name: 'list_restaurants',
      description:
        'Find restaurants, with the merchant_id, the service_id and the time zone that asking for a table needs. Costs no call to ' +
        'Salesforce. Go on with check_table.',
    },
    request: { query },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(merchantSchema, 'MerchantPage', 'A page of restaurants.'),
      },
    },
    problems: ['invalid_cursor'],
    async handle({ query: { limit = defaultLimit, cursor, q }, call }) {
      const list = JSON.stringify(['merchants', q]);
      // They change with the settings only: a position in the list is enough.
      const from = cursor === undefined ? 0 : (cursors.decode(cursor, list) as number);
      const found = reservations
        .merchants(call)
        .filter((merchant) => q === undefined || textsOf(merchant).some((text) => text.includes(folded(q))))
        .toSorted((a, b) => byText(folded(a.name), folded(b.name)) || byText(a.merchant_id, b.merchant_id));
      return pageAnswer(
        found.slice(from),
        limit,
        (merchant) => merchant,
        (merchant) => cursors.encode(found.indexOf(merchant) + 1, list),
      );
    },
  });
}

function byText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

function textsOf({ merchant_id, name, services }: Merchant): string[] {
  return [merchant_id, name, ...services.flatMap((service) => [service.service_id, service.name])].map(
    folded,
  );
}
