import { type Static, Type } from 'typebox';
import { defineRoute, json, type Route } from '../../api/route.ts';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { isManagedBy } from '../../identity/consumers/test-families.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { dayMs } from '../../platform/base/moment.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { CallLedger } from './call-ledger.ts';
import { moment, number, rounded } from './crm-usage-route.ts';
import { keptDays } from './growing-counts.ts';
import { answerClasses, type RequestLedger } from './request-ledger.ts';

export interface ConsumerUsageParts {
  calls: Pick<CallLedger, 'ofConsumer'>;
  requests: Pick<RequestLedger, 'ofConsumer'>;
  findConsumer(id: string): Consumer | undefined;
}

const count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, examples: [12_345] });
const idParams = Type.Object(
  {
    id: Type.String({
      maxLength: 200,
      format: 'text',
      description: 'Id of the consumer.',
      examples: ['con_o2tBsovC6m7gYpQd'],
    }),
  },
  { additionalProperties: false },
);
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
    crm_calls: number("Metered CRM calls; of a shared call, this consumer's part.", 210.5),
  },
  { additionalProperties: false, title: 'ConsumerUsage' },
);

const query = Type.Object(
  {
    from: moment('This day (UTC) and later; the last 90 if left out.'),
    to: moment('This day and earlier; until today if left out.'),
  },
  { additionalProperties: false },
);

const one = {
  method: 'GET',
  tag: 'Administration',
  idempotencyKey: 'ignored',
  answers: {
    200: {
      description: 'The days, the earliest first.',
      schema: Type.Object(
        { data: Type.Array(row, { maxItems: keptDays + 1 }) },
        { additionalProperties: false, title: 'ConsumerUsageReport' },
      ),
    },
  },
} as const;
const days =
  'for each day of the last 90, of all replicas. Those of other replicas appear within a second. Days without requests are ' +
  'left out.';

export function ownUsageRoute(parts: ConsumerUsageParts): Route {
  return defineRoute({
    ...one,
    path: '/v1/consumer/usage',
    operationId: 'getOwnUsage',
    summary: 'Read your own usage',
    description: `Your requests and the CRM calls that were made for them, ${days}`,
    permission: { anyCredentials: true },
    request: { query },
    problems: ['store_unavailable'],
    handle: ({ query: asked, consumer }) => reportOn((consumer as Consumer).id, asked, parts),
  });
}

export function consumerUsageRoute(parts: ConsumerUsageParts): Route {
  return defineRoute({
    ...one,
    path: '/v1/admin/consumers/:id/usage',
    operationId: 'getConsumerUsage',
    summary: "Read a consumer's usage",
    description: `Its requests and the CRM calls that were made for them, ${days}`,
    permission: { resource: 'consumers', action: 'read' },
    request: { params: idParams, query },
    problems: ['not_found', 'store_unavailable'],
    handle({ params: { id }, query: asked, consumer: caller }) {
      const consumer = parts.findConsumer(id);
      if (!consumer || !isManagedBy(caller as Consumer, consumer))
        throw new Problem('not_found', "There's no consumer with this id.");
      return reportOn(id, asked, parts);
    },
  });
}

async function reportOn(id: string, asked: Static<typeof query>, { calls, requests }: ConsumerUsageParts) {
  const today = dayOf(wallMs());
  const from = Math.max(asked.from === undefined ? 0 : dayOf(Date.parse(asked.from)), today - keptDays);
  const to = Math.min(asked.to === undefined ? today : dayOf(Date.parse(asked.to)), today) + 1;
  const [counted, used] = await Promise.all([
    requests.ofConsumer(id, from, to),
    calls.ofConsumer(id, from * 24, to * 24),
  ]);
  const answers = new Map(counted.map(({ day, ...counts }) => [day, counts]));
  const names = [...new Set([...answers.keys(), ...used.keys()])].sort();
  return json(200, {
    data: names.map((day) => ({
      day,
      requests: answers.get(day) ?? { '2xx': 0, '4xx': 0, '5xx': 0 },
      crm_calls: rounded(used.get(day) ?? 0),
    })),
  });
}

function dayOf(ms: number): number {
  return Math.floor(ms / dayMs);
}
