import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../api/route.ts';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { modeOf } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { hourMs } from '../../platform/base/moment.ts';
import { type CallLedger, mostRows, serviceId, usageColumns } from './call-ledger.ts';

export interface UsageParts {
  calls: Pick<CallLedger, 'read'>;
  findConsumer(id: string): Pick<Consumer, 'name'> | undefined;
}

export const moment = (description: string) =>
  Type.Optional(
    Type.String({ format: 'date-time', maxLength: 40, description, examples: ['2027-03-01T08:00:00.000Z'] }),
  );
const textOrNull = (maxLength: number, description: string, example: string) =>
  Type.Union([Type.String({ maxLength, examples: [example] }), Type.Null()], { description });
export const number = (description: string, example: number) =>
  Type.Number({ minimum: 0, maximum: 1e15, description, examples: [example] });

const row = Type.Object(
  {
    consumer_id: textOrNull(
      64,
      "Id of the consumer; `service` for the gateway's own calls; null unless `by=consumer`.",
      'con_o2tBsovC6m7gYpQd',
    ),
    consumer_name: textOrNull(400, 'Its name; null if it was revoked.', 'Partner A'),
    operation: textOrNull(40, 'Operation of the calls; null unless `by=operation`.', 'query'),
    day: textOrNull(10, 'The day in UTC; null unless `by=day`.', '2027-03-01'),
    calls: number('Metered calls; of a shared call, the part of these requests.', 1234.5),
    requests: number('Requests that the calls carried; one that took two calls counts twice.', 20_480),
  },
  { additionalProperties: false, title: 'CrmUsage' },
);

const query = Type.Object(
  {
    from: moment('Calls of this hour and later; the last 90 days if left out.'),
    to: moment('Calls of this hour and earlier; until now if left out.'),
    by: Type.Optional(
      Type.Enum(Object.keys(usageColumns) as (keyof typeof usageColumns)[], {
        default: 'consumer',
        description: 'How the calls are grouped.',
        examples: ['consumer'],
      }),
    ),
  },
  { additionalProperties: false },
);

export function crmUsageRoute({ calls, findConsumer }: UsageParts): Route {
  const nameOf = (id: string) => (id === serviceId ? serviceId : (findConsumer(id)?.name ?? null));
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/crm-usage',
    operationId: 'getCrmUsage',
    tag: 'Administration',
    summary: 'Read who used the CRM quota',
    description:
      'The metered CRM calls of the last 90 days, on all replicas. Where several requests shared a call, each is ' +
      'charged an equal part of it. Calls are counted by the hour: the hours of `from` and `to` are included ' +
      'whole.',
    permission: { resource: 'consumers', action: 'read' },
    idempotencyKey: 'ignored',
    request: { query },
    answers: {
      200: {
        description: 'The sums.',
        schema: Type.Object(
          {
            data: Type.Array(row, {
              maxItems: mostRows,
              description: 'The most calls first; days in their order.',
            }),
            total: number('All metered calls between the two moments.', 98_765),
          },
          { additionalProperties: false, title: 'CrmUsageReport' },
        ),
      },
    },
    problems: ['store_unavailable'],
    async handle({ query: { from, to, by = 'consumer' }, consumer }) {
      // Test consumers make no calls, and live ones are not theirs to see.
      if (modeOf(consumer?.id) === 'test') return json(200, { data: [], total: 0 });
      const hours = {
        from: from === undefined ? 0 : Math.floor(Date.parse(from) / hourMs),
        to: Math.floor((to === undefined ? wallMs() : Date.parse(to)) / hourMs) + 1,
      };
      const { rows, total } = await calls.read({ by, ...hours });
      const noColumns = { consumer_id: null, consumer_name: null, operation: null, day: null };
      return json(200, {
        data: rows.map(({ name, ...sums }) => ({
          ...noColumns,
          [usageColumns[by]]: name,
          ...(by === 'consumer' && { consumer_name: nameOf(name) }),
          calls: rounded(sums.calls),
          requests: sums.requests,
        })),
        total: rounded(total),
      });
    },
  });
}

export function rounded(calls: number): number {
  return Math.round(calls * 1000) / 1000;
}
