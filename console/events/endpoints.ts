import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { usePages } from '../shared/load.ts';
import { Badge, type Column, Field, List, ProblemAlert } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.ts';
import { type Act, useActions } from './use-actions.ts';

export interface Endpoint {
  id: string;
  url: string;
  event_types: string[];
  description: string | null;
  enabled: boolean;
  disabled_reason: string | null;
  created_at: string;
  last_success_at: string | null;
  last_failure_at: string | null;
}

const path = '/v1/webhook-endpoints';

/** The consumer's own webhook endpoints. */
export function Endpoints(): VNode {
  const { can } = useSession();
  const pages = usePages<Endpoint>(path, 10_000);
  const { act, problem, notice } = useActions(pages.reload);
  const actions: Column<Endpoint> = {
    title: 'Actions',
    cell: (endpoint) => html`<${Actions} endpoint=${endpoint} act=${act} />`,
  };
  return html`${problem && html`<${ProblemAlert} problem=${problem} />`}
    ${notice && html`<p class="notice" role="status">${notice}</p>`}
    ${can('webhooks', 'write') && html`<${EndpointForm} act=${act} />`}
    <${List} caption="Webhook endpoints" pages=${pages} columns=${[...columns, actions]} keyOf=${({ id }: Endpoint) => id}
      empty=${html`<p>No webhook endpoint yet.</p><p>Make one, and events are sent to it as they happen.</p>`} />`;
}

const columns: Column<Endpoint>[] = [
  {
    title: 'Address',
    cell: ({ id, url, description }) =>
      html`<a href=${`#/events/endpoints/${id}`}>${url}</a>${description && html`<br /><span class="quiet">${description}</span>`}`,
  },
  { title: 'Events', cell: ({ event_types }) => event_types.join(', ') || 'all' },
  {
    title: 'State',
    cell: ({ enabled, disabled_reason: reason }) =>
      html`<${Badge}>${enabled ? 'enabled' : 'disabled'}</${Badge}> ${!enabled && reason}`,
  },
  { title: 'Last success', cell: ({ last_success_at }) => html`<${Ago} at=${last_success_at} />` },
  { title: 'Last failure', cell: ({ last_failure_at }) => html`<${Ago} at=${last_failure_at} />` },
];

function Actions({ endpoint, act }: { endpoint: Endpoint; act: Act }): VNode {
  const { can, showSecret } = useSession();
  const [isSure, setSure] = useState(false);
  const { id, enabled, url } = endpoint;
  const own = `${path}/${id}`;
  const rotate = async () => {
    const text = await act(`${own}/rotate-secret`, 'POST', '{}');
    if (text === undefined) return;
    const { secret, previous_expires_at: end } = JSON.parse(text) as Rotation;
    const note = `Until ${new Date(end).toLocaleString()} both secrets sign.`;
    showSecret({ title: `New secret of ${url}`, secret, note });
  };
  const button = (name: string, onClick: () => void) =>
    html`<button type="button" class="plain" onClick=${onClick}>${name}</button>`;
  return html`<div class="buttons">
    ${
      can('webhooks', 'write') &&
      html`${button('Send a test', () => void act(`${own}/test`, 'POST', undefined, 'A ping is on its way.'))}
        ${button('Rotate secret', () => void rotate())}
        ${button(enabled ? 'Disable' : 'Enable', () => void act(own, 'PATCH', JSON.stringify({ enabled: !enabled })))}`
    }
    ${
      can('webhooks', 'delete') &&
      button(isSure ? 'Delete now' : 'Delete', () => (isSure ? void act(own, 'DELETE') : setSure(true)))
    }
  </div>`;
}

interface Rotation {
  secret: string;
  previous_expires_at: string;
}

function EndpointForm({ act }: { act: Act }): VNode {
  const { showSecret } = useSession();
  const [draft, setDraft] = useState(empty);
  const set = (name: keyof typeof empty) => (value: string) => setDraft({ ...draft, [name]: value });
  const submit = async (event: Event) => {
    event.preventDefault();
    const types = draft.types.split(/[\s,]+/).filter(Boolean);
    const { url, description } = draft;
    const body = {
      url: url.trim(),
      ...(types.length > 0 && { event_types: types }),
      ...(description && { description }),
    };
    const text = await act(path, 'POST', JSON.stringify(body));
    if (text === undefined) return;
    setDraft(empty);
    const { secret } = JSON.parse(text) as { secret: string };
    showSecret({
      title: `Secret of ${body.url}`,
      secret,
      note: 'With it the receiver checks the signatures.',
    });
  };
  return html`<form class="filters" onSubmit=${submit}>
    <${Field} label="Address" type="url" value=${draft.url} onInput=${set('url')} required placeholder="https://…" />
    <${Field} label="Event types" value=${draft.types} onInput=${set('types')} placeholder="all, or quote.*, booking.updated" />
    <${Field} label="Description" value=${draft.description} onInput=${set('description')} maxLength=${255} />
    <button class="primary">Create endpoint</button>
  </form>`;
}

const empty = { url: '', types: '', description: '' };
