import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { AuditEvents } from './audit-events.ts';
import { html } from './shared/html.ts';
import { pagesAt, usePages } from './shared/load.ts';
import { Choice, type Column, Field, Id, List } from './shared/parts.ts';
import { withQuery } from './shared/session.ts';
import { Ago } from './shared/time.ts';

interface Attempt {
  consumer_id: string | null;
  endpoint: string;
  result: string;
  timestamp: string;
  request_id: string;
  address: string | null;
  user_agent: string | null;
  api_key: string | null;
  status: number | null;
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
  ['disabled', 'Disabled'],
  ['certificate', 'Certificate'],
  ['address', 'Address'],
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
  { title: 'Status', cell: ({ status }) => status, isNumber: true },
  {
    title: 'Address',
    cell: ({ address, user_agent }) => html`<span title=${user_agent ?? ''}>${address ?? '–'}</span>`,
  },
  { title: 'API key', cell: ({ api_key }) => html`<${Id}>${api_key}</${Id}>` },
  { title: 'Request id', cell: ({ request_id }) => html`<${Id}>${request_id}</${Id}>` },
  { title: 'Count', cell: ({ count }) => count, isNumber: true },
];

const none = { consumer_id: '', address: '', api_key: '' };

/** Who tried to authenticate, and who changed consumers. `route`: `changes` for the latter. */
export function AttemptsPage({ route }: { route: string[] }): VNode {
  const isChanges = route[0] === 'changes';
  return html`<h1>Attempts</h1>
    <div class="tabs" role="group" aria-label="Kinds of entries">
      <a href="#/attempts" aria-current=${isChanges ? undefined : 'page'}>Authentication</a>
      <a href="#/attempts/changes" aria-current=${isChanges ? 'page' : undefined}>Changes</a>
    </div>
    ${isChanges ? html`<${AuditEvents} />` : html`<${Attempts} />`}`;
}

function Attempts(): VNode {
  const [result, setResult] = useState('');
  const [typed, setTyped] = useState(none);
  const [asked, ask] = useState(none);
  const path = withQuery('/v1/admin/auth-attempts', { result, ...asked });
  const pages = usePages<Attempt>(path, pagesAt(path), 10_000);
  const set = (name: keyof typeof none) => (value: string) => setTyped({ ...typed, [name]: value.trim() });
  const submit = (event: Event) => {
    event.preventDefault();
    ask(typed);
  };
  const isFiltered = Object.values({ result, ...asked }).some(Boolean);
  return html`<form class="filters" onSubmit=${submit}>
      <${Choice} label="Result" value=${result} options=${results} onChange=${setResult} />
      <${Field} label="Consumer" value=${typed.consumer_id} onInput=${set('consumer_id')} placeholder="con_…" />
      <${Field} label="Address" value=${typed.address} onInput=${set('address')} />
      <${Field} label="Key" value=${typed.api_key} onInput=${set('api_key')} placeholder="hgk_…" />
      <button class="plain">Filter</button>
    </form>
    <${List} caption="Attempts to authenticate" pages=${pages} columns=${columns}
      keyOf=${({ request_id, timestamp }: Attempt) => request_id + timestamp}
      empty=${isFiltered ? 'No attempt matches these filters.' : 'Nobody has tried to authenticate yet.'} />`;
}
