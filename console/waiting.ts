import type { AcceptedHandoff, HandoffClient, ListHandoffsQuery } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from './shared/api.ts';
import { html } from './shared/html.ts';
import { type ReadPage, usePages } from './shared/load.ts';
import { Badge, Choice, type Column, Id, List, ProblemAlert, single } from './shared/parts.ts';
import { useSession } from './shared/session.ts';
import { Ago } from './shared/time.ts';

type Status = NonNullable<ListHandoffsQuery['status']>;

const filters: [value: Status | '', text: string][] = [
  ['', 'All'],
  ['accepted', 'Waiting'],
  ['failed', 'Failed'],
  ['created', 'Created'],
  ['cancelled', 'Cancelled'],
];

const columns: Column<AcceptedHandoff>[] = [
  { title: 'Accepted', cell: ({ accepted_at }) => html`<${Ago} at=${accepted_at} />` },
  { title: 'Type', cell: ({ type }) => type },
  {
    title: 'Status',
    cell: ({ status }) => html`<${Badge}>${status === 'accepted' ? 'waiting' : status}</${Badge}>`,
  },
  { title: 'External ID', cell: ({ external_id }) => html`<${Id}>${external_id}</${Id}>` },
  {
    title: 'Problem',
    cell: ({ problem }) =>
      problem && html`<strong>${problem.title}</strong><br /><span class="quiet">${problem.detail}</span>`,
  },
  { title: 'Tries', cell: ({ attempts }) => attempts, isNumber: true },
  { title: 'Completed', cell: ({ completed_at }) => html`<${Ago} at=${completed_at} />` },
];

/** Hand-offs that were accepted while the CRM was unavailable, and what became of them. */
export function WaitingPage(): VNode {
  const session = useSession();
  const [status, setStatus] = useState<Status | ''>('');
  const [problem, setProblem] = useState<Problem | undefined>();
  const readPage: ReadPage<AcceptedHandoff> = ({ client }, cursor) =>
    client.handoffs.list({ ...(status && { status }), cursor }).page();
  const pages = usePages(status, readPage, 5000);
  const act = async (change: (handoffs: HandoffClient['handoffs']) => Promise<unknown>) => {
    setProblem(undefined);
    await change(session.client.handoffs).catch((error: unknown) => setProblem(problemFrom(error)));
    await pages.reload();
  };
  const actions: Column<AcceptedHandoff> = {
    title: 'Actions',
    cell: ({ external_id: id, type, status: now }) => {
      const [canRetry, canCancel] = [session.can(`${type}s`, 'write'), session.can(`${type}s`, 'delete')];
      return html`<div class="buttons">
        ${now === 'failed' && canRetry && html`<button type="button" class="plain" onClick=${single(() => void act((handoffs) => handoffs.retry(id)))}>Retry</button>`}
        ${['accepted', 'failed'].includes(now) && canCancel && html`<button type="button" class="plain" onClick=${single(() => void act((handoffs) => handoffs.cancel(id)))}>Cancel</button>`}
      </div>`;
    },
  };
  return html`<h1>Waiting</h1>
    <div class="filters"><${Choice} label="Status" value=${status} options=${filters} onChange=${setStatus} /></div>
    ${problem && html`<${ProblemAlert} problem=${problem} isAnswer />`}
    <${List} caption="Accepted hand-offs" pages=${pages} columns=${[...columns, actions]}
      keyOf=${({ external_id }: AcceptedHandoff) => external_id}
      empty=${status ? 'None has this status.' : html`<p>Nothing waits.</p><p>Hand-offs that the CRM could not take at once are delivered later, and stand here.</p>`} />`;
}
