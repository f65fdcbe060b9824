import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from './shared/html.ts';
import { usePages } from './shared/load.ts';
import { Choice, type Column, Field, Id, List } from './shared/parts.ts';
import { withQuery } from './shared/session.ts';
import { Ago } from './shared/time.ts';

interface Attempt {
  consumer_id: string | null;
  endpoint: string;
  result: string;
  timestamp: string;
  request_id: string;
  count: number;
}

const results: [value: string, text: string][] = [
  ['', 'All'],
  ['accepted', 'Accepted'],
  ['missing', 'Missing'],
  ['unknown_key', 'Unknown key'],
  ['wrong_secret', 'Wrong secret'],
  ['expired', 'Expired'],
  ['revoked', 'Revoked'],
  ['certificate', 'Certificate'],
  ['permission_denied', 'Permission denied'],
];

const columns: Column<Attempt>[] = [
  { title: 'When', cell: ({ timestamp }) => html`<${Ago} at=${timestamp} />` },
  {
    title: 'Result',
    cell: ({ result }) =>
      html`<span class=${`badge ${result === 'accepted' ? 'good' : 'bad'}`}>${result.replaceAll('_', ' ')}</span>`,
  },
  { title: 'Consumer', cell: ({ consumer_id }) => html`<${Id}>${consumer_id}</${Id}>` },
  { title: 'Endpoint', cell: ({ endpoint }) => html`<code>${endpoint}</code>` },
  { title: 'Request id', cell: ({ request_id }) => html`<${Id}>${request_id}</${Id}>` },
  { title: 'Count', cell: ({ count }) => count, isNumber: true },
];

/** Who tried to authenticate, and how each try ended. */
export function AttemptsPage(): VNode {
  const [filters, setFilters] = useState({ result: '', consumer_id: '' });
  const [consumer, setConsumer] = useState('');
  const pages = usePages<Attempt>(withQuery('/v1/admin/auth-attempts', filters), 10_000);
  const submit = (event: Event) => {
    event.preventDefault();
    setFilters({ ...filters, consumer_id: consumer.trim() });
  };
  return html`<h1>Attempts</h1>
    <form class="filters" onSubmit=${submit}>
      <${Choice} label="Result" value=${filters.result} options=${results}
        onChange=${(result: string) => setFilters({ ...filters, result })} />
      <${Field} label="Consumer" value=${consumer} onInput=${setConsumer} placeholder="con_…" />
      <button class="plain">Filter</button>
    </form>
    <${List} caption="Attempts to authenticate" pages=${pages} columns=${columns}
      keyOf=${({ request_id, timestamp }: Attempt) => request_id + timestamp}
      empty=${Object.values(filters).some(Boolean) ? 'No attempt matches these filters.' : 'Nobody has tried to authenticate yet.'} />`;
}
