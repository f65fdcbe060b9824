import type { VNode } from 'preact';
import { crmName } from '../shared/page-facts.ts';
import { countOf } from '../shared/words.ts';
import { type Activity, answeredIn, pointsOf, totalOf } from './activity.ts';
import { inUnits } from './not-fresh.tsx';
import { clock, type Line, Plot } from './plot.tsx';

interface PlotPlan {
  title: string;
  unit: string;
  look?: 'bars';
  /** Names of series, and how they are called in the plot. */
  lines: [series: string, name: string][];
}

const plans: PlotPlan[] = [
  {
    title: 'Latency',
    unit: 'ms',
    lines: [
      ['latency_p50', 'p50'],
      ['latency_p99', 'p99'],
    ],
  },
  { title: `${crmName} calls`, unit: 'calls', look: 'bars', lines: [['crm_calls', 'calls']] },
  {
    title: `${crmName} quota`,
    unit: 'calls in 24 hours',
    lines: [
      ['crm_quota_used', 'used'],
      ['crm_quota_limit', 'limit'],
    ],
  },
  {
    title: `Waiting for ${crmName}`,
    unit: 'hand-offs',
    lines: [['handoffs_waiting', 'waiting']],
  },
  { title: 'Change feed lag', unit: 'in seconds', lines: [['reader_age', 'lag']] },
];

/** What each series is called in the table of numbers. */
const labels = new Map([
  ['requests', 'Requests'],
  ['refusals', 'Refused (4xx)'],
  ['errors', 'Failed (5xx)'],
  ['webhooks_delivered', 'Webhook deliveries'],
  ['webhooks_failed', 'Failed webhook deliveries'],
  ['webhooks_oldest', 'Oldest webhook delivery'],
  ...plans.flatMap(({ title, lines }) =>
    lines.map(([series, name]): [string, string] => [series, lines.length > 1 ? `${title}, ${name}` : title]),
  ),
]);

/** The last hour, of all replicas together. */
export function Plots({ activity }: { activity: Activity }): VNode {
  const to = Date.now();
  const period = { from: to - 3_600_000, to, stepMs: activity.interval_seconds * 1000 };
  const known = plans.filter(({ lines }) =>
    lines.some(([series]) => activity.series.some(({ name }) => name === series)),
  );
  return (
    <>
      <h2>Last hour</h2>
      <div class="with-totals">
        <Plot
          title="Requests"
          unit="requests"
          look="bars"
          lines={[
            { name: 'answered', points: answeredIn(activity) },
            { name: '4xx', points: pointsOf(activity, 'refusals') },
            { name: '5xx', points: pointsOf(activity, 'errors') },
          ]}
          {...period}
        />
        <Totals activity={activity} />
      </div>
      <Deliveries activity={activity} />
      <div class="plots">
        {known.map(({ lines, ...plan }) => (
          <Plot
            key={plan.title}
            {...plan}
            lines={lines.map(([series, name]): Line => ({ name, points: pointsOf(activity, series) }))}
            {...period}
          />
        ))}
      </div>
      <details>
        <summary>Show numbers</summary>
        <Numbers activity={activity} />
      </details>
    </>
  );
}

/** Whether events reach the webhook endpoints. Nothing where the service doesn't tell. */
function Deliveries({ activity }: { activity: Activity }): VNode | null {
  const oldest = pointsOf(activity, 'webhooks_oldest').at(-1)?.[1];
  if (oldest === undefined) return null;
  const failures = totalOf(activity, 'webhooks_failed');
  const delivered = totalOf(activity, 'webhooks_delivered');
  if (delivered + failures + oldest === 0) return <p>No webhooks have been sent, and none are waiting.</p>;
  const waits = oldest > 0 ? `The oldest event has waited for ${inUnits(oldest)}.` : 'No events are waiting.';
  return (
    <p>
      {countOf(delivered, 'webhook event')} delivered,{' '}
      {failures > 0 ? (
        <strong class="headline waiting">{countOf(failures, 'attempt')} failed.</strong>
      ) : (
        'no failed attempts.'
      )}{' '}
      {waits}
    </p>
  );
}

function Totals({ activity }: { activity: Activity }): VNode {
  const all = totalOf(activity, 'requests');
  const shown: [title: string, series: string, tone: string][] = [
    ['Requests', 'requests', ''],
    ['Refused (4xx)', 'refusals', 'waiting'],
    ['Failed (5xx)', 'errors', 'bad'],
  ];
  return (
    <dl class="totals" aria-label="Requests in the last hour">
      {shown.map(([title, series, tone]) => {
        const count = totalOf(activity, series);
        return (
          <div key={series}>
            <dt>{title}</dt>
            <dd class={count > 0 ? tone : ''}>
              {count.toLocaleString('en')}
              {series !== 'requests' && all > 0 && (
                <span class="quiet"> {((100 * count) / all).toFixed(1)}%</span>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function Numbers({ activity: { series } }: { activity: Activity }): VNode {
  const times = (series[0]?.points ?? [])
    .slice(-18)
    .map(([time]) => time)
    .toReversed();
  const valueAt = (points: [string, number][], wanted: string) =>
    points.find(([time]) => time === wanted)?.[1] ?? '–';
  return (
    <div class="scroll" tabindex={0} role="region" aria-label="The last few minutes in numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ name, unit }) => (
              <th scope="col" class="number">
                {labels.get(name) ?? name.replaceAll('_', ' ')}{' '}
                <span class="quiet">{unit === 's' ? 'in seconds' : unit}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.map((time) => (
            <tr key={time}>
              <td>{clock(Date.parse(time), true)}</td>
              {series.map(({ points }) => (
                <td class="number">{valueAt(points, time)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
