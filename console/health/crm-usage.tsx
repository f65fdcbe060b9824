import type { CrmUsageReport, CrmUsage as Row } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useLoad } from '../shared/load.ts';
import { Choice, type Column, Freshness, LoadProblem, Skeleton, Table } from '../shared/parts.tsx';
import { read, withQuery } from '../shared/session.ts';
import { dayInWords } from '../shared/time.tsx';

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

/** Who used the CRM's calls. Not there where the service keeps no ledger of them. */
export function CrmUsage(): VNode | null {
  const [by, setBy] = useState<By>('consumer');
  const [days, setDays] = useState('1');
  const usage = useLoad(`crm-usage ${by} ${days}`, (session) => {
    const from = new Date(Date.now() - Number(days) * dayMs).toISOString();
    return read<CrmUsageReport>(session, withQuery('/v1/admin/crm-usage', { by, from }));
  });
  const { data, problem } = usage;
  if (problem?.status === 404) return null;
  return (
    <>
      <h2>Use of CRM calls</h2>
      <div class="filters">
        <Choice label="By" options={groups} value={by} onChange={setBy} />
        <Choice label="Period" options={periods} value={days} onChange={setDays} />
      </div>
      <Freshness of={usage} />
      <LoadProblem of={usage} />
      {!data && !problem && <Skeleton />}
      {data && (
        <Table
          caption="Use of CRM calls"
          columns={columnsFor(by, data.total)}
          rows={data.data}
          keyOf={(row: Row) => row.consumer_id ?? nameOf(row)}
        />
      )}
    </>
  );
}

function nameOf({ consumer_name, consumer_id, operation, day }: Row): string {
  if (consumer_id === 'service') return 'The service itself';
  return consumer_name ?? consumer_id ?? operation ?? dayInWords(day ?? '') ?? '';
}

function columnsFor(by: By, total: number): Column<Row>[] {
  const [, title = ''] = groups.find(([value]) => value === by) ?? [];
  return [
    { title, cell: (row) => <span title={row.consumer_id ?? ''}>{nameOf(row)}</span> },
    { title: 'Calls', isNumber: true, cell: ({ calls }) => Math.round(calls).toLocaleString('en') },
    { title: 'Share', isNumber: true, cell: ({ calls }) => `${Math.round((100 * calls) / (total || 1))} %` },
    { title: 'Requests', isNumber: true, cell: ({ requests }) => requests.toLocaleString('en') },
  ];
}
