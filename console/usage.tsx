import type { ConsumerUsage, ConsumerUsageReport } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { type Line, Plot } from './health/plot.tsx';
import { useLoad } from './shared/load.ts';
import { crmName } from './shared/page-facts.ts';
import { type Column, LoadProblem, Skeleton, Table } from './shared/parts.tsx';
import { read, withQuery } from './shared/session.ts';
import { dayInWords } from './shared/time.tsx';

const dayMs = 86_400_000;
const shownDays = 30;

interface UsageProps {
  /** Where the API has it. */
  path: string;
}

/** The requests of one consumer in the last 30 days, by day. Not there where the service does not count them. */
export function Usage({ path }: UsageProps): VNode | null {
  const to = Math.ceil(Date.now() / dayMs) * dayMs;
  const from = to - shownDays * dayMs;
  const usage = useLoad(path, (session) =>
    read<ConsumerUsageReport>(session, withQuery(path, { from: new Date(from).toISOString() })),
  );
  const { data, problem } = usage;
  if (problem?.status === 404) return null;
  // The service leaves out days without requests.
  const byDay = new Map(data?.data.map((day) => [Date.parse(day.day), day]));
  const line = (name: string, value: (day: ConsumerUsage) => number): Line => ({
    name,
    points: Array.from({ length: shownDays }, (_, n) => {
      const at = from + n * dayMs;
      const day = byDay.get(at);
      return [at, day === undefined ? 0 : value(day)];
    }),
  });
  const axis = {
    ticks: [0, 7, 14, 21].map((days) => from + days * dayMs),
    label: dayOf,
    period: `${shownDays} days`,
  };
  const plot = { from, to, axis, stepMs: dayMs, look: 'bars', moment: dayOf } as const;
  return (
    <>
      <h2>Usage</h2>
      <LoadProblem of={usage} />
      {!data && !problem && <Skeleton />}
      {data && (
        <>
          <div class="plots">
            <Plot
              {...plot}
              title="Requests"
              unit="requests"
              lines={[
                line('answered', ({ requests }) => requests['2xx']),
                line('refused', ({ requests }) => requests['4xx']),
                line('failed', ({ requests }) => requests['5xx']),
              ]}
            />
            <Plot
              {...plot}
              title={`${crmName} calls`}
              unit="calls"
              lines={[line('calls', (day) => day.crm_calls)]}
            />
          </div>
          <details>
            <summary>Show numbers</summary>
            <Table
              caption="Usage by day"
              columns={dayColumns}
              rows={data.data.toReversed()}
              keyOf={({ day }: ConsumerUsage) => day}
            />
          </details>
        </>
      )}
    </>
  );
}

const dayColumns: Column<ConsumerUsage>[] = [
  { title: 'Day (UTC)', cell: ({ day }) => dayInWords(day) ?? day },
  { title: 'Answered', isNumber: true, cell: ({ requests }) => requests['2xx'].toLocaleString('en') },
  { title: 'Refused (4xx)', isNumber: true, cell: ({ requests }) => requests['4xx'].toLocaleString('en') },
  { title: 'Failed (5xx)', isNumber: true, cell: ({ requests }) => requests['5xx'].toLocaleString('en') },
  {
    title: `${crmName} calls`,
    isNumber: true,
    cell: ({ crm_calls }) => Math.round(crm_calls).toLocaleString('en'),
  },
];

function dayOf(at: number): string {
  return new Date(at).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
}
