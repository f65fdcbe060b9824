import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import { type Activity, intervalSeconds } from '../activity/activity.ts';

/** A pair: a text, then a number. */
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
    name: Type.String({ maxLength: 64, description: 'What was counted.', examples: ['requests'] }),
    unit: Type.String({ maxLength: 32, description: 'What a value of 1 means.', examples: ['requests'] }),
    points: Type.Array(point, {
      maxItems: 360,
      description: 'Oldest first. An interval of which nothing is known is left out.',
      examples: [[['2027-03-01T08:00:00.000Z', 42]]],
    }),
  },
  { additionalProperties: false, title: 'Series' },
);

/** What the service did in the last hour, for the console's plots. */
export function activityRoute(activity: Activity): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/activity',
    operationId: 'getActivity',
    tag: 'Administration',
    summary: 'Read what happened in the last hour',
    description:
      'Requests, errors, latency, CRM calls and quota in intervals of 10 seconds, of all replicas together; of the one ' +
      'that answers where they share no Redis. For monitoring, scrape the metrics instead.',
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
          },
          { additionalProperties: false, title: 'Activity' },
        ),
      },
    },
    problems: [],
    handle: async () => json(200, { interval_seconds: intervalSeconds, series: await activity.series() }),
  });
}
