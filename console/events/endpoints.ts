import type { WebhookEndpoint } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { type ReadPage, usePages } from '../shared/load.ts';
import { Badge, type Column, Field, List, ProblemAlert, single } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.ts';
import { type Act, useActions } from './use-actions.ts';

const readPage: ReadPage<WebhookEndpoint> = ({ client }, cursor) =>
  client.webhookEndpoints.list({ cursor }).page();

/** The consumer's own webhook endpoints. */
export function Endpoints(): VNode {
  const { can } = useSession();
  const pages = usePages('endpoints', readPage, 10_000);
  const { act, problem, notice } = useActions(pages.reload);
  const actions: Column<WebhookEndpoint> = {
    title: 'Actions',
    cell: (endpoint) => html`<${Actions} endpoint=${endpoint} act=${act} />`,
  };
  return html`${problem && html`<${ProblemAlert} problem=${problem} isAnswer />`}
    ${notice && html`<p class="notice" role="status">${notice}</p>`}
    ${can('webhooks', 'write') && html`<${EndpointForm} act=${act} />`}
    <${List} caption="Webhook endpoints" pages=${pages} columns=${[...columns, actions]} keyOf=${({ id }: WebhookEndpoint) => id}
      empty=${html`<p>No webhook endpoint yet.</p><p>Make one, and events are sent to it as they happen.</p>`} />`;
}

const columns: Column<WebhookEndpoint>[] = [
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

function Actions({ endpoint, act }: { endpoint: WebhookEndpoint; act: Act }): VNode {
  const { can, showSecret } = useSession();
  const [isSure, setSure] = useState(false);
  const { id, enabled, url } = endpoint;
  const rotate = async () => {
    const rotation = await act((endpoints) => endpoints.rotateSecret(id));
    if (rotation === undefined) return;
    const { secret, previous_expires_at: end } = rotation;
    const note = `Until ${new Date(end).toLocaleString()} both secrets sign.`;
    showSecret({ title: `New secret of ${url}`, secret, note });
  };
  const button = (name: string, onClick: () => void) =>
    html`<button type="button" class="plain" onClick=${single(onClick)}>${name}</button>`;
  return html`<div class="buttons">
    ${
      can('webhooks', 'write') &&
      html`${button('Send a test', () => void act((endpoints) => endpoints.test(id), 'A ping is on its way.'))}
        ${button('Rotate secret', () => void rotate())}
        ${button(enabled ? 'Disable' : 'Enable', () => void act((endpoints) => endpoints.update(id, { enabled: !enabled })))}`
    }
    ${
      can('webhooks', 'delete') &&
      button(isSure ? 'Delete now' : 'Delete', () =>
        isSure ? void act((endpoints) => endpoints.delete(id)) : setSure(true),
      )
    }
  </div>`;
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
    const made = await act((endpoints) => endpoints.create(body));
    if (made === undefined) return;
    setDraft(empty);
    showSecret({
      title: `Secret of ${body.url}`,
      secret: made.secret,
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
