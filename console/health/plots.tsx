import type { VNode } from 'preact';
import { useLoad } from '../shared/load.ts';
import { LoadProblem, Skeleton } from '../shared/parts.tsx';
import { read } from '../shared/session.ts';
import { countOf } from '../shared/words.ts';
import { clock, type Line, Plot } from './plot.tsx';

interface Activity {
  interval_seconds: number;
  budget_exhausted_at: string | null;
  series: { name: string; unit: string; points: [time: string, value: number][] }[];
}

interface PlotPlan {
  title: string;
  unit: string;
  /** Names of series, and how they are called in the plot. */
  lines: [series: string, name: string][];
}

const plans: PlotPlan[] = [
  {
    title: 'Requests',
    unit: 'in 10 s',
    lines: [
      ['requests', 'all'],
      ['errors', 'errors'],
    ],
  },
  {
    title: 'Latency',
    unit: 'ms',
    lines: [
      ['latency_p50', 'p50'],
      ['latency_p99', 'p99'],
    ],
  },
  { title: 'CRM calls', unit: 'in 10 s', lines: [['crm_calls', 'calls']] },
  {
    title: 'CRM quota',
    unit: 'calls in 24 hours',
    lines: [
      ['crm_quota_used', 'used'],
      ['crm_quota_limit', 'limit'],
    ],
  },
  { title: 'Waiting', unit: 'hand-offs', lines: [['handoffs_waiting', 'waiting']] },
  { title: 'Change feed lag', unit: 's', lines: [['reader_age', 'lag']] },
];

/** What each series is called in the table of numbers. */
const labels = new Map(
  plans.flatMap(({ title, lines }) =>
    lines.map(([series, name]) => [series, lines.length > 1 ? `${title}, ${name}` : title]),
  ),
);

/** The last hour, of all replicas together. */
export function Plots({ everyMs }: { everyMs: number }): VNode {
  const loaded = useLoad('activity', (session) => read<Activity>(session, '/v1/admin/activity'), everyMs);
  const { data, problem } = loaded;
  if (data === undefined) return problem ? <LoadProblem of={loaded} /> : <Skeleton />;
  const to = Date.now();
  const known = plans.filter(({ lines }) =>
    lines.some(([series]) => data.series.some(({ name }) => name === series)),
  );
  const gapMs = data.interval_seconds * 1500;
  const exhaustedAt = data.budget_exhausted_at;
  return (
    <>
      <h2>Last hour</h2>
      {exhaustedAt && <p class="headline bad">{exhaustionInWords(Date.parse(exhaustedAt) - to)}</p>}
      <div class="plots">
        {known.map(({ title, unit, lines }) => (
          <Plot
            key={title}
            title={title}
            unit={unit}
            lines={lines.map((one) => lineOf(data, one))}
            from={to - 3_600_000}
            to={to}
            gapMs={gapMs}
          />
        ))}
      </div>
      <details>
        <summary>Show numbers</summary>
        <Numbers activity={data} />
      </details>
    </>
  );
}

function exhaustionInWords(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1) return 'The budget of CRM calls is used up: requests are waiting.';
  const time = minutes < 90 ? countOf(minutes, 'minute') : countOf(Math.round(minutes / 60), 'hour');
  return `At this rate the budget of CRM calls will be used up in ${time}.`;
}

function lineOf({ series }: Activity, [wanted, name]: [string, string]): Line {
  const points = series.find((one) => one.name === wanted)?.points ?? [];
  return { name, points: points.map(([time, value]) => [Date.parse(time), value]) };
}

function Numbers({ activity: { series } }: { activity: Activity }): VNode {
  const times = (series[0]?.points ?? [])
    .slice(-18)
    .map(([time]) => time)
    .toReversed();
  const valueAt = (points: [string, number][], wanted: string) =>
    points.find(([time]) => time === wanted)?.[1] ?? '–';
  return (
    <div class="scroll" tabindex={0} role="region" aria-label="Last minutes in numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ name, unit }) => (
              <th scope="col" class="number">
                {labels.get(name) ?? name.replaceAll('_', ' ')} <span class="quiet">{unit}</span>
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
