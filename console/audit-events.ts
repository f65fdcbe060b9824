import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from './shared/html.ts';
import { usePages } from './shared/load.ts';
import { Choice, type Column, Field, Id, List } from './shared/parts.ts';
import { withQuery } from './shared/session.ts';
import { Ago } from './shared/time.ts';

interface AuditEvent {
  id: string;
  timestamp: string;
  action: string;
  actor: { type: string; id: string; name: string | null; person?: string | null };
  target: { id: string; name: string | null };
  address: string | null;
  user_agent: string | null;
  request_id: string | null;
  changes: { field: string; from: unknown; to: unknown }[];
}

const actions: [value: string, text: string][] = [
  ['', 'All'],
  ['consumer.created', 'Created'],
  ['consumer.updated', 'Updated'],
  ['consumer.rotated', 'Rotated'],
  ['consumer.disabled', 'Disabled'],
  ['consumer.enabled', 'Enabled'],
  ['consumer.revoked', 'Revoked'],
];

const columns: Column<AuditEvent>[] = [
  { title: 'When', cell: ({ timestamp }) => html`<${Ago} at=${timestamp} />` },
  { title: 'Action', cell: ({ action }) => html`<code>${action}</code>` },
  {
    title: 'Consumer',
    cell: ({ target }) => html`<span title=${target.id}>${target.name ?? target.id}</span>`,
  },
  {
    title: 'By',
    cell: ({ actor }) =>
      html`<span title=${actor.id}>${actor.person ?? actor.name ?? actor.id}</span><br /><span class="quiet">${actor.type.replaceAll('_', ' ')}</span>`,
  },
  {
    title: 'Changes',
    cell: ({ changes }) => html`<ul class="bare">
      ${changes.map(({ field, from, to }) => html`<li>${field}: <span class="quiet">${JSON.stringify(from)} →</span> ${JSON.stringify(to)}</li>`)}
    </ul>`,
  },
  {
    title: 'Address',
    cell: ({ address, user_agent }) => html`<span title=${user_agent ?? ''}>${address ?? '–'}</span>`,
  },
  { title: 'Request id', cell: ({ request_id }) => html`<${Id}>${request_id}</${Id}>` },
];

/** Who changed which consumer, and how. */
export function AuditEvents(): VNode {
  const [action, setAction] = useState('');
  const [typed, setTyped] = useState('');
  const [target, setTarget] = useState('');
  const pages = usePages<AuditEvent>(
    withQuery('/v1/admin/audit-events', { action, target_id: target }),
    10_000,
  );
  const submit = (event: Event) => {
    event.preventDefault();
    setTarget(typed.trim());
  };
  return html`<form class="filters" onSubmit=${submit}>
      <${Choice} label="Action" value=${action} options=${actions} onChange=${setAction} />
      <${Field} label="Consumer" value=${typed} onInput=${setTyped} placeholder="con_…" />
      <button class="plain">Filter</button>
    </form>
    <${List} caption="Changes of consumers" pages=${pages} columns=${columns} keyOf=${({ id }: AuditEvent) => id}
      empty=${action || target ? 'No change matches these filters.' : 'No consumer has been changed yet.'} />`;
}
