import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../api/route.ts';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { dayMs } from '../../platform/base/durations.ts';
import type { CallLedger } from './call-ledger.ts';
import { moment, number, rounded } from './crm-usage-route.ts';
import { keptDays } from './growing-counts.ts';
import { answerClasses, type RequestLedger } from './request-ledger.ts';

export interface OwnUsageParts {
  calls: Pick<CallLedger, 'ofConsumer'>;
  requests: Pick<RequestLedger, 'ofConsumer'>;
}

const count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, examples: [12_345] });
const row = Type.Object(
  {
    day: Type.String({
      format: 'date',
      maxLength: 10,
      description: 'The day in UTC.',
      examples: ['2027-03-01'],
    }),
    requests: Type.Object(Object.fromEntries(answerClasses.map((name) => [name, count])), {
      additionalProperties: false,
      description: 'Requests with valid credentials, by class of the answer; 304 counts as `2xx`.',
    }),
    crm_calls: number(
      'Metered calls of the CRM: of one that several requests shared, the part of yours.',
      210.5,
    ),
  },
  { additionalProperties: false, title: 'ConsumerUsage' },
);

/** Shows a consumer its own requests and the CRM calls that were made for them. */
export function ownUsageRoute({ calls, requests }: OwnUsageParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/consumer/usage',
    operationId: 'getOwnUsage',
    tag: 'Administration',
    summary: 'Read your own usage',
    description:
      'Your requests and the CRM calls that were made for them, for each day of the last 90, of all replicas. Those of other ' +
      'replicas appear within a second. Days without requests are left out.',
    permission: { anyCredentials: true },
    idempotencyKey: 'ignored',
    request: {
      query: Type.Object(
        {
          from: moment('This day (UTC) and later; the last 90 if left out.'),
          to: moment('This day and earlier; until today if left out.'),
        },
        { additionalProperties: false },
      ),
    },
    answers: {
      200: {
        description: 'The days, the earliest first.',
        schema: Type.Object(
          { data: Type.Array(row, { maxItems: keptDays + 1 }) },
          { additionalProperties: false, title: 'ConsumerUsageReport' },
        ),
      },
    },
    problems: ['store_unavailable'],
    async handle({ query, consumer }) {
      const { id } = consumer as Consumer;
      const today = dayOf(wallMs());
      const from = Math.max(query.from === undefined ? 0 : dayOf(Date.parse(query.from)), today - keptDays);
      const to = Math.min(query.to === undefined ? today : dayOf(Date.parse(query.to)), today) + 1;
      const [days, used] = await Promise.all([
        requests.ofConsumer(id, from, to),
        calls.ofConsumer(id, from * 24, to * 24),
      ]);
      const answers = new Map(days.map(({ day, ...counts }) => [day, counts]));
      const names = [...new Set([...answers.keys(), ...used.keys()])].sort();
      return json(200, {
        data: names.map((day) => ({
          day,
          requests: answers.get(day) ?? { '2xx': 0, '4xx': 0, '5xx': 0 },
          crm_calls: rounded(used.get(day) ?? 0),
        })),
      });
    },
  });
}

function dayOf(ms: number): number {
  return Math.floor(ms / dayMs);
}
