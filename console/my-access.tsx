import type {
  AuthenticationAttempt as Attempt,
  ConsumerUsage,
  ConsumerUsageReport,
} from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { resultBadge } from './attempts.tsx';
import { type Consumer, inShort } from './consumers/consumer.ts';
import { type Line, Plot } from './health/plot.tsx';
import { pagesAt, useLoad, usePages } from './shared/load.ts';
import {
  Badge,
  type Column,
  Freshness,
  Id,
  List,
  LoadProblem,
  Skeleton,
  single,
  Table,
} from './shared/parts.tsx';
import { RotateQuestion } from './shared/rotate-question.tsx';
import { isTest, read, useSession, withQuery } from './shared/session.ts';
import { Ago, dayInWords } from './shared/time.tsx';
import { TestReset } from './test-band.tsx';

type Pair = Consumer['credentials'][number];

const dayMs = 86_400_000;
const shownDays = 30;

const pairColumns: Column<Pair>[] = [
  { title: 'Key', cell: ({ apiKey }) => <Id>{apiKey}</Id> },
  { title: 'State', cell: ({ state }) => <Badge>{state}</Badge> },
  { title: 'Created', cell: ({ createdAt }) => <Ago at={createdAt} /> },
  { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt ? <Ago at={lastUsedAt} /> : '–') },
  { title: 'Expires', cell: ({ expiresAt }) => (expiresAt ? <Ago at={expiresAt} /> : 'never') },
];

const attemptColumns: Column<Attempt>[] = [
  { title: 'When', cell: ({ timestamp }) => <Ago at={timestamp} /> },
  {
    title: 'Result',
    cell: resultBadge,
  },
  { title: 'Request', cell: ({ endpoint }) => <code>{endpoint}</code> },
  { title: 'Status', cell: ({ status }) => status, isNumber: true },
  { title: 'Address', cell: ({ address }) => address ?? '–' },
];

/** What the signed-in consumer may do, its keys, and what it has used. */
export function MyAccessPage(): VNode {
  const session = useSession();
  const own = useLoad('own', (caller) => read<Consumer>(caller, '/v1/consumer'));
  const { data, problem } = own;
  return (
    <>
      <h1>My access</h1>
      <Freshness of={own} />
      <LoadProblem of={own} />
      {!data && !problem && <Skeleton />}
      {data && (
        <>
          <Access consumer={data} />
          <Keys consumer={data} />
        </>
      )}
      {isTest(session.consumer) && <TestReset />}
      <Usage />
      <SignIns />
    </>
  );
}

function Access({ consumer }: { consumer: Consumer }): VNode {
  const { can } = useSession();
  const { id, name, permissions, rateLimitPerMinute, validUntil, allowedAddresses = [] } = consumer;
  return (
    <section class="panel" aria-label="Access">
      <dl class="fields">
        <dt>Consumer</dt>
        <dd>
          {name} <code>{id}</code>
        </dd>
        <dt>Permissions</dt>
        <dd>
          {permissions.map((one) => (
            <div>{inShort(one)}</div>
          ))}
        </dd>
        <dt>Requests a minute</dt>
        <dd>{rateLimitPerMinute ?? "the service's limit"}</dd>
        <dt>Valid until</dt>
        <dd>{validUntil ? <Ago at={validUntil} /> : 'no end date'}</dd>
        <dt>Addresses</dt>
        <dd>{allowedAddresses.join(', ') || 'any'}</dd>
        {can('webhooks', 'read') && (
          <>
            <dt>Webhooks</dt>
            <dd>
              <a href="#/events/endpoints">Endpoints</a>
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

function Keys({ consumer }: { consumer: Consumer }): VNode {
  const { send } = useSession();
  const [isAsking, ask] = useState(false);
  const rotate = async (hours: number) => {
    const body = JSON.stringify({ grace_window_hours: hours });
    return (await send('/v1/consumer/rotate', { method: 'POST', body })).text;
  };
  return (
    <>
      <div class="title">
        <h2>Keys</h2>
        <button type="button" class="plain" onClick={single(() => ask(true))}>
          Rotate my key…
        </button>
      </div>
      <Table
        caption="Keys"
        columns={pairColumns}
        rows={consumer.credentials}
        keyOf={({ apiKey }: Pair) => apiKey}
      />
      {isAsking && <RotateQuestion name={consumer.name} rotate={rotate} onClose={() => ask(false)} />}
    </>
  );
}

/** Not there where the service does not count requests. */
function Usage(): VNode | null {
  const to = Math.ceil(Date.now() / dayMs) * dayMs;
  const from = to - shownDays * dayMs;
  const usage = useLoad('own usage', (session) =>
    read<ConsumerUsageReport>(
      session,
      withQuery('/v1/consumer/usage', { from: new Date(from).toISOString() }),
    ),
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
            <Plot {...plot} title="CRM calls" unit="calls" lines={[line('calls', (day) => day.crm_calls)]} />
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
  { title: 'CRM calls', isNumber: true, cell: ({ crm_calls }) => Math.round(crm_calls).toLocaleString('en') },
];

function dayOf(at: number): string {
  return new Date(at).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
}

function SignIns(): VNode {
  const path = '/v1/consumer/auth-attempts?limit=20';
  const pages = usePages<Attempt>(path, pagesAt(path));
  return (
    <>
      <h2>Last requests</h2>
      <List
        caption="Last requests"
        pages={pages}
        columns={attemptColumns}
        keyOf={({ request_id, timestamp }: Attempt) => request_id + timestamp}
        empty="None yet."
      />
    </>
  );
}
