import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import { modeOf } from '../../../platform/base/call.ts';
import { formatTimestamp } from '../../../platform/base/moment.ts';
import { type Activity, intervalSeconds } from '../activity/activity.ts';

const timeOrValue = Type.Unsafe<string | number>({
  type: ['string', 'number'],
  maxLength: 40,
  minimum: 0,
  maximum: 1e15,
});

const point = Type.Array(timeOrValue, {
  minItems: 2,
  maxItems: 2,
  description: 'When the interval began, and what was counted in it.',
});

const series = Type.Object(
  {
    name: Type.String({ maxLength: 64, description: 'Name of the series.', examples: ['requests'] }),
    unit: Type.String({ maxLength: 32, description: 'Unit of the values.', examples: ['requests'] }),
    points: Type.Array(point, {
      maxItems: 360,
      description: 'Oldest first. Intervals without data are left out.',
      examples: [[['2027-03-01T08:00:00.000Z', 42]]],
    }),
  },
  { additionalProperties: false, title: 'Series' },
);

export interface ActivityParts {
  activity: Pick<Activity, 'series'>;
  /** Null: it lasts, or there is none. */
  budgetExhaustedAt: () => Promise<Date | null>;
}

export function activityRoute({ activity, budgetExhaustedAt }: ActivityParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/activity',
    operationId: 'getActivity',
    tag: 'Administration',
    summary: 'Read what happened in the last hour',
    description:
      'Requests, errors (5xx), refusals (4xx), latency, CRM calls, quota and webhook deliveries in 10-second intervals, of all replicas together; only of the one ' +
      'that answers where they share no Redis. Live requests only; test credentials see none. For monitoring, scrape the metrics instead.',
    permission: { resource: 'consumers', action: 'read' },
    idempotencyKey: 'ignored',
    request: {},
    answers: {
      200: {
        description: 'The series.',
        schema: Type.Object(
          {
            interval_seconds: Type.Integer({ minimum: 1, maximum: 3600, examples: [intervalSeconds] }),
            series: Type.Array(series, { maxItems: 100 }),
            budget_exhausted_at: Type.Union(
              [
                Type.String({ format: 'date-time', maxLength: 40, examples: ['2027-03-01T14:30:00.000Z'] }),
                Type.Null(),
              ],
              {
                description:
                  "When the CRM call budget runs out at the last hour's rate; from then on, requests wait for calls. Null: it " +
                  'lasts for the next 24 hours, or there is none.',
              },
            ),
          },
          { additionalProperties: false, title: 'Activity' },
        ),
      },
    },
    problems: [],
    handle: async ({ consumer }) => {
      if (modeOf(consumer?.id) === 'test') return answer([], null);
      const [shown, exhaustedAt] = await Promise.all([activity.series(), budgetExhaustedAt()]);
      return answer(shown, exhaustedAt && formatTimestamp(exhaustedAt.getTime()));
    },
  });
}

function answer(shown: Awaited<ReturnType<Activity['series']>>, budget_exhausted_at: string | null) {
  return json(200, { interval_seconds: intervalSeconds, series: shown, budget_exhausted_at });
}
