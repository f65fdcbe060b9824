import { Type } from 'typebox';
import { type HistorySubject, historyKinds } from '../../../api/history.ts';
import { defineRoute, json, type Permission, type Route } from '../../../api/route.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { Call } from '../../../platform/base/call.ts';
import { crmProblems, Problem } from '../../../platform/base/problem.ts';
import { uuidSchema } from '../../../records/resource.ts';
import type { History } from '../history.ts';

const example = '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f';
const orNull = <T extends Type.TSchema>(schema: T, description: string, shown: unknown = null) =>
  Type.Union([schema, Type.Null()], { description, examples: [shown] });

const doer = Type.Object(
  {
    consumer_id: Type.String({ maxLength: 64, description: 'Id of the consumer.', examples: [example] }),
    consumer_name: orNull(Type.String({ maxLength: 400 }), 'Its name.', 'Trip desk'),
    actor: orNull(
      Type.String({ maxLength: 1020 }),
      'The person, as named by X-Actor or as signed in.',
      'ana@example.com',
    ),
    verified: Type.Boolean({ description: 'True: the person signed in.', examples: [false] }),
  },
  { additionalProperties: false, description: 'Who did it; null if unknown or hidden.' },
);

const value = (description: string, shown: string) =>
  Type.Optional(
    Type.Unsafe<unknown>({
      type: ['string', 'number', 'boolean', 'object', 'null'],
      maxLength: 262_144,
      additionalProperties: true,
      description,
      examples: [shown],
    }),
  );
const change = Type.Object(
  {
    field: Type.String({ maxLength: 64, description: 'Name of the field.', examples: ['status'] }),
    from: value('Its value before; left out if unknown, and for `details`.', 'created'),
    to: value('Its value after; left out for `details`.', 'confirmed'),
  },
  { additionalProperties: false, description: 'A field that changed.' },
);

const historyEntry = Type.Object(
  {
    at: Type.String({
      format: 'date-time',
      maxLength: 24,
      description: "When it happened. For changes in the CRM, the CRM's time in whole seconds.",
      examples: ['2027-03-02T16:05:12.000Z'],
    }),
    kind: Type.Enum(historyKinds, {
      description:
        '`requested`: a consumer asked for it, at `endpoint`. `awaiting_approval`, `approved`, `rejected`, `accepted`: of a ' +
        'hand-off that was answered 202. `created`, `updated`, `deleted`, `restored`: in the CRM, by anyone. `step`: of a ' +
        'reservation. `delivered`, `delivery_failed`: an event, to one of your own webhook endpoints.',
      examples: ['updated'],
    }),
    by: orNull(doer, 'Who did it; null if unknown or hidden.'),
    changes: orNull(
      Type.Array(change, { maxItems: 500 }),
      'For an update or a step; null if unknown, and for everything else.',
      [{ field: 'status', from: 'created', to: 'confirmed' }],
    ),
    endpoint: orNull(
      Type.String({ maxLength: 100 }),
      'The operation of a request; the id of the webhook endpoint of a delivery; else null.',
    ),
  },
  { additionalProperties: false, title: 'HistoryEntry', description: 'Something that happened.' },
);

const answer = Type.Object(
  { data: Type.Array(historyEntry, { maxItems: 5000, description: 'Oldest first.' }) },
  { additionalProperties: false, title: 'History', description: 'History of a record.' },
);

interface HistoryOf {
  type: HistorySubject['type'];
  path: string;
  operationId: string;
  what: string;
  permission: Permission;
}

const readOn = (resource: 'quotes' | 'bookings') => ({ resource, action: 'read' }) as const;

const all: readonly HistoryOf[] = [
  {
    type: 'quote',
    path: '/v1/quotes/:id',
    operationId: 'getQuoteHistory',
    what: 'a quote',
    permission: readOn('quotes'),
  },
  {
    type: 'booking',
    path: '/v1/bookings/:id',
    operationId: 'getBookingHistory',
    what: 'a booking',
    permission: readOn('bookings'),
  },
  {
    type: 'reservation',
    path: '/v1/reservations/:id',
    operationId: 'getReservationHistory',
    what: 'a reservation',
    permission: readOn('bookings'),
  },
  {
    type: 'handoff',
    path: '/v1/handoffs/:externalId',
    operationId: 'getHandoffHistory',
    what: 'a hand-off that was answered 202',
    permission: { anyOf: [readOn('quotes'), readOn('bookings')] },
  },
];

export interface HistoryParts {
  historyBy(possible: () => readonly Route[]): History;
  subjects?: readonly HistorySubject['type'][];
}

export function historyRoutes(
  { historyBy, subjects }: HistoryParts,
  possible: () => readonly Route[],
): Route[] {
  let made: History | undefined;
  const history: History = (subject, reader) => {
    made ??= historyBy(possible);
    return made(subject, reader);
  };
  return all
    .filter(({ type }) => subjects === undefined || subjects.includes(type))
    .map((one) => historyRoute(history, one));
}

function historyRoute(history: History, { type, path, operationId, what, permission }: HistoryOf): Route {
  const idName = path.slice(path.indexOf(':') + 1);
  return defineRoute({
    method: 'GET',
    path: `${path}/history`,
    operationId,
    tag: 'History',
    summary: `Read the history of ${what}`,
    description:
      'Oldest first: the request, what became of it, and each change that was seen in the CRM. It can still be ' +
      'read after the record is deleted, for as long as its parts are kept. At most the newest 1,000 entries from ' +
      'each kind of source.',
    permission,
    idempotencyKey: 'ignored',
    request: {
      params: Type.Object({ [idName]: uuidSchema('External ID.', example) }, { additionalProperties: false }),
    },
    answers: { 200: { description: 'The history.', schema: answer } },
    problems: [
      'not_found',
      'store_unavailable',
      ...(type === 'quote' || type === 'booking' ? crmProblems : []),
    ],
    async handle({ params, consumer, call }) {
      const { [idName]: id = '' } = params as Record<string, string>;
      return answerFrom(history, { type, id: id.toLowerCase() }, consumer as Consumer, call);
    },
  });
}

async function answerFrom(history: History, subject: HistorySubject, consumer: Consumer, call: Call) {
  const data = await history(subject, { consumer, call });
  if (data === undefined)
    throw new Problem('not_found', "There's nothing with this id, and no history of it.");
  return json(200, { data }, { 'cache-control': 'private, no-cache' });
}
