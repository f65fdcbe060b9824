import type { CrmUsageReport, CrmUsage as Row } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Consumer } from '../consumers/consumer.ts';
import { type Loaded, useLoad } from '../shared/load.ts';
import { isQuotaUsedUp, type Quota } from '../shared/outage.ts';
import { crmName } from '../shared/page-facts.ts';
import { Choice, type Column, Freshness, LoadProblem, Skeleton, Table } from '../shared/parts.tsx';
import { isTest, read, useSession, withQuery } from '../shared/session.ts';
import { dateAndTime, dayInWords } from '../shared/time.tsx';
import { countOf } from '../shared/words.ts';
import { mostColours, number, type Part, QuotaBar, Swatch } from './quota-bar.tsx';
import { inWords, ShareSlider } from './share-slider.tsx';

type By = 'consumer' | 'operation' | 'day';

const groups: [value: By, text: string][] = [
  ['consumer', 'Consumer'],
  ['operation', 'Operation'],
  ['day', 'Day'],
];
const periods: [value: string, text: string][] = [
  ['1', '24 hours'],
  ['7', '7 days'],
  ['90', '90 days'],
];
const dayMs = 86_400_000;

function useUsage(by: By, days: string): Loaded<CrmUsageReport> {
  return useLoad(`crm-usage ${by} ${days}`, (session) => {
    const from = new Date(Date.now() - Number(days) * dayMs).toISOString();
    return read<CrmUsageReport>(session, withQuery('/v1/admin/crm-usage', { by, from }));
  });
}

interface UsageProps {
  /** Undefined before the org has reported it. */
  quota: Quota | undefined;
  /** When requests will have to wait for calls of the budget; null: it lasts. Undefined while that is not known. */
  exhaustedAt: string | null | undefined;
}

/** Who used the CRM's calls, and how much of them is kept for whom. Not there where the service keeps no ledger of them. */
export function CrmUsage({ quota, exhaustedAt }: UsageProps): VNode | null {
  const today = useUsage('consumer', '1');
  if (today.problem?.status === 404) return null;
  return (
    <>
      <h2>{crmName} calls by consumer</h2>
      {quota && <Budget quota={quota} exhaustedAt={exhaustedAt} />}
      {quota && today.data && <QuotaBar quota={quota} parts={partsOf(today.data.data)} />}
      <UsageTable bar={today.data?.data ?? []} hasBudget={quota?.budget !== undefined} />
    </>
  );
}

function UsageTable({ bar, hasBudget }: { bar: readonly Row[]; hasBudget: boolean }): VNode {
  const [by, setBy] = useState<By>('consumer');
  const [days, setDays] = useState('1');
  const usage = useUsage(by, days);
  const { data, problem } = usage;
  return (
    <>
      <div class="filters">
        <Choice label="Group by" options={groups} value={by} onChange={setBy} />
        <Choice label="Period" options={periods} value={days} onChange={setDays} />
      </div>
      <Freshness of={usage} />
      <LoadProblem of={usage} />
      {!data && !problem && <Skeleton />}
      {data && by === 'consumer' && <ByConsumer report={data} bar={bar} hasBudget={hasBudget} />}
      {data && by !== 'consumer' && (
        <Table
          caption={`${crmName} call usage`}
          columns={[{ title: titleOf(by), cell: nameOf }, ...columnsFor(data.total)]}
          rows={data.data}
          keyOf={nameOf}
        />
      )}
    </>
  );
}

/** How much is used, and when it will be used up. */
function Budget({ quota, exhaustedAt }: UsageProps & { quota: Quota }): VNode {
  const { used, limit, budget, budget_used: ofBudget = 0 } = quota;
  return (
    <p>
      {budget !== undefined && `${number(ofBudget)} of the budget's ${number(budget)} calls used. `}
      {`${number(used)} of the org's ${number(limit)} calls used in 24 hours. `}
      {isQuotaUsedUp(quota) ? (
        <strong class="headline bad">
          {budget !== undefined && ofBudget >= budget
            ? 'The budget is used up. Requests wait until calls are free.'
            : "The org's daily calls are used up. Requests are refused until some are free."}
        </strong>
      ) : (
        budget !== undefined && <Forecast budget={budget} exhaustedAt={exhaustedAt} />
      )}
    </p>
  );
}

function Forecast({
  budget,
  exhaustedAt,
}: Pick<UsageProps, 'exhaustedAt'> & { budget: number }): VNode | null {
  if (exhaustedAt === undefined) return null;
  if (exhaustedAt === null) return <>At this rate the budget lasts the day.</>;
  const at = Date.parse(exhaustedAt);
  const frees = `the budget frees ${countOf(Math.ceil(budget / 24), 'call')} an hour`;
  const minutes = Math.round((at - Date.now()) / 60_000);
  if (minutes < 1) return <strong class="headline waiting">Requests wait for calls: {frees}.</strong>;
  const time = minutes < 90 ? countOf(minutes, 'minute') : countOf(Math.round(minutes / 60), 'hour');
  return (
    <strong class="headline waiting">
      At this rate the budget runs out in {time}, at {dateAndTime(at)}. Then requests wait: {frees}.
    </strong>
  );
}

/** The largest users, the gateway's own work among them, and the others together. */
function partsOf(rows: readonly Row[]): Part[] {
  const others = rows.slice(mostColours);
  return [
    ...rows.slice(0, mostColours).map((row, colour) => ({ colour, name: nameOf(row), calls: row.calls })),
    ...(others.length > 0
      ? [
          {
            colour: mostColours,
            name: countOf(others.length, 'other'),
            calls: others.reduce((sum, { calls }) => sum + calls, 0),
          },
        ]
      : []),
  ];
}

interface ByConsumerProps {
  report: CrmUsageReport;
  /** The rows of the bar, in its order. */
  bar: readonly Row[];
  hasBudget: boolean;
}

/** Consumers with their calls and what is theirs of a short budget, those without calls too. */
function ByConsumer({ report, bar, hasBudget }: ByConsumerProps): VNode {
  const { can } = useSession();
  const consumers = useLoad('shares', (session) =>
    read<{ data: Consumer[] }>(session, '/v1/admin/consumers?limit=200'),
  );
  const [changed, setChanged] = useState<Record<string, number | null>>({});
  const live = (consumers.data?.data ?? [])
    .filter((one) => !isTest(one))
    .map((one) => ({
      ...one,
      crmShare: changed[one.id] ?? (one.id in changed ? null : (one.crmShare ?? null)),
    }));
  const given = live.reduce((sum, { crmShare }) => sum + (crmShare ?? 0), 0);
  const idle = live.filter(({ id }) => !report.data.some((row) => row.consumer_id === id));
  const rows: Row[] = [
    ...report.data,
    ...idle.map(({ id, name }) => ({ ...noCalls, consumer_id: id, consumer_name: name })),
  ];
  const place = ({ consumer_id: id }: Row) => {
    const found = bar.findIndex((row) => row.consumer_id === id);
    return found < 0 ? undefined : Math.min(found, mostColours);
  };
  const shareColumn: Column<Row> = {
    title: 'Own share',
    cell: ({ consumer_id: id }) => {
      const consumer = live.find((one) => one.id === id);
      if (consumer === undefined) return null;
      const { crmShare } = consumer;
      if (!can('consumers', 'write')) return inWords(crmShare ?? 0);
      const save = (share: number | null) => setChanged((before) => ({ ...before, [consumer.id]: share }));
      return <ShareSlider consumer={consumer} most={100 - given + (crmShare ?? 0)} onSaved={save} />;
    },
  };
  return (
    <>
      <p class="hint">
        {hasBudget
          ? 'When the call budget runs short, a consumer gets at least its own share of the calls; the rest is split evenly.'
          : "Shares divide the gateway's daily call budget when it runs short. No budget is set (CRM_DAILY_CALL_BUDGET), so they'll take effect once there is one."}
        {` ${given}% assigned.`}
      </p>
      <LoadProblem of={consumers} />
      <Table
        caption={`${crmName} call usage`}
        columns={[
          {
            title: 'Consumer',
            cell: (row) => (
              <span title={row.consumer_id ?? ''}>
                <Swatch colour={place(row)} />
                {nameOf(row)}
              </span>
            ),
          },
          ...columnsFor(report.total),
          shareColumn,
        ]}
        rows={rows}
        keyOf={(row: Row) => row.consumer_id ?? nameOf(row)}
      />
    </>
  );
}

const noCalls = { operation: null, day: null, calls: 0, requests: 0 };

function titleOf(by: By): string {
  return groups.find(([value]) => value === by)?.[1] ?? '';
}

function nameOf({ consumer_name, consumer_id, operation, day }: Row): string {
  if (consumer_id === 'service') return 'The gateway itself';
  return consumer_name ?? consumer_id ?? operation ?? dayInWords(day ?? '') ?? '';
}

function columnsFor(total: number): Column<Row>[] {
  return [
    { title: 'Calls', isNumber: true, cell: ({ calls }) => number(calls) },
    {
      title: 'Share of calls',
      isNumber: true,
      cell: ({ calls }) => `${Math.round((100 * calls) / (total || 1))}%`,
    },
    { title: 'Requests', isNumber: true, cell: ({ requests }) => number(requests) },
  ];
}
