import type { AuthenticationAttempt as Attempt } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { AuditEvents } from './audit-events.tsx';
import { pagesAt, usePages } from './shared/load.ts';
import { Choice, type Column, Field, Id, List, NoMatch } from './shared/parts.tsx';
import { useParameters } from './shared/router.ts';
import { withQuery } from './shared/session.ts';
import { Ago } from './shared/time.tsx';

const results: [value: string, text: string][] = [
  ['', 'All'],
  ['accepted', 'Accepted'],
  ['missing', 'No key'],
  ['unknown_key', 'Unknown key'],
  ['wrong_secret', 'Wrong secret'],
  ['expired', 'Expired'],
  ['revoked', 'Revoked'],
  ['disabled', 'Disabled'],
  ['certificate', 'Wrong certificate'],
  ['address', 'Address not allowed'],
  ['permission_denied', 'No permission'],
];

const columns: Column<Attempt>[] = [
  { title: 'When', cell: ({ timestamp }) => <Ago at={timestamp} /> },
  {
    title: 'Result',
    cell: resultBadge,
  },
  { title: 'Consumer', cell: ({ consumer_id }) => <Id>{consumer_id}</Id> },
  { title: 'Request', cell: ({ endpoint }) => <code>{endpoint}</code> },
  { title: 'Status', cell: ({ status }) => status, isNumber: true },
  {
    title: 'Address',
    cell: ({ address, user_agent }) => <span title={user_agent ?? ''}>{address ?? '–'}</span>,
  },
  { title: 'API key', cell: ({ api_key }) => <Id>{api_key}</Id> },
  { title: 'Request ID', cell: ({ request_id }) => <Id>{request_id}</Id> },
  { title: 'Count', cell: ({ count }) => count.toLocaleString('en'), isNumber: true },
];

export function resultBadge({ result }: Attempt): VNode {
  const words = results.find(([value]) => value === result)?.[1] ?? result.replaceAll('_', ' ');
  return <span class={`badge ${result === 'accepted' ? 'good' : 'bad'}`}>{words}</span>;
}

const none = { consumer_id: '', address: '', api_key: '', request_id: '' };

/** Who tried to authenticate, and who changed consumers. `route`: `changes` for the latter. */
export function AttemptsPage({ route }: { route: string[] }): VNode {
  const isChanges = route[0] === 'changes';
  return (
    <>
      <h1>Sign-ins</h1>
      <div class="tabs" role="group" aria-label="Kinds of entries">
        <a href="#/attempts" aria-current={isChanges ? undefined : 'page'}>
          Requests
        </a>
        <a href="#/attempts/changes" aria-current={isChanges ? 'page' : undefined}>
          Changes
        </a>
      </div>
      {isChanges ? <AuditEvents /> : <Attempts />}
    </>
  );
}

function Attempts(): VNode {
  const [result, setResult] = useState('');
  const [named] = useParameters(['request_id']);
  const [typed, setTyped] = useState({ ...none, ...named });
  const [asked, ask] = useState({ ...none, ...named });
  const path = withQuery('/v1/admin/auth-attempts', { result, ...asked });
  const pages = usePages<Attempt>(path, pagesAt(path), 10_000);
  const set = (name: keyof typeof none) => (value: string) => setTyped({ ...typed, [name]: value.trim() });
  const submit = (event: Event) => {
    event.preventDefault();
    ask(typed);
  };
  const isFiltered = Object.values({ result, ...asked }).some(Boolean);
  const showAll = () => {
    setResult('');
    setTyped(none);
    ask(none);
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <Choice label="Result" value={result} options={results} onChange={setResult} />
        <Field label="Consumer" value={typed.consumer_id} onInput={set('consumer_id')} placeholder="con_…" />
        <Field label="Address" value={typed.address} onInput={set('address')} />
        <Field label="API key" value={typed.api_key} onInput={set('api_key')} placeholder="hgk_…" />
        <Field label="Request ID" value={typed.request_id} onInput={set('request_id')} />
        <button class="plain">Filter</button>
      </form>
      <List
        caption="Sign-ins"
        pages={pages}
        columns={columns}
        keyOf={({ request_id, timestamp }: Attempt) => request_id + timestamp}
        empty={isFiltered ? <NoMatch what="sign-in" showAll={showAll} /> : <p>No sign-ins yet.</p>}
      />
    </>
  );
}
