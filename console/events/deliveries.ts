import type { ListWebhookDeliveriesQuery, WebhookDelivery } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { type ReadPage, useLoad, usePages } from '../shared/load.ts';
import { Badge, Choice, type Column, Field, Id, List, ProblemAlert, single } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import { Ago, inWords } from '../shared/time.ts';
import { type Act, useActions } from './use-actions.ts';

type Status = NonNullable<ListWebhookDeliveriesQuery['status']>;

const filters: [value: Status | '', text: string][] = [
  ['', 'All'],
  ['pending', 'Pending'],
  ['delivered', 'Delivered'],
  ['failed', 'Failed'],
];

/** What was sent to one endpoint, and how that went. */
export function Deliveries({ id }: { id: string }): VNode {
  const { can } = useSession();
  const endpoint = useLoad(id, ({ client }) => client.webhookEndpoints.retrieve(id));
  const [status, setStatus] = useState<Status | ''>('');
  const readPage: ReadPage<WebhookDelivery> = ({ client }, cursor) =>
    client.webhookEndpoints.deliveries(id, { ...(status && { status }), cursor }).page();
  const pages = usePages(`${id} ${status}`, readPage, 5000);
  const { act, problem, notice } = useActions(pages.reload);
  const canSend = can('webhooks', 'write');
  const resend: Column<WebhookDelivery> = {
    title: 'Actions',
    cell: (delivery) => html`<button type="button" class="plain"
      onClick=${single(() => void act((endpoints) => endpoints.resend(id, delivery.id)))}>Resend</button>`,
  };
  return html`<h2>${endpoint.data?.url ?? 'Deliveries'}</h2>
    ${problem && html`<${ProblemAlert} problem=${problem} isAnswer />`}
    ${notice && html`<p class="notice" role="status">${notice}</p>`}
    <div class="filters">
      <${Choice} label="Status" value=${status} options=${filters} onChange=${setStatus} />
      ${canSend && html`<${Recover} id=${id} act=${act} />`}
    </div>
    <${List} caption="Deliveries" pages=${pages} columns=${canSend ? [...columns, resend] : columns}
      keyOf=${(delivery: WebhookDelivery) => delivery.id}
      empty=${status ? 'None has this status.' : 'Nothing was sent to this endpoint yet.'} />
    <p><a href="#/events/endpoints">Back to the endpoints</a></p>`;
}

const columns: Column<WebhookDelivery>[] = [
  { title: 'Event', cell: ({ event_type }) => html`<code>${event_type}</code>` },
  { title: 'Event id', cell: ({ event_id }) => html`<${Id}>${event_id}</${Id}>` },
  { title: 'Status', cell: ({ status }) => html`<${Badge}>${status}</${Badge}>` },
  {
    title: 'Tries',
    cell: ({ attempts }) => html`<ul class="bare">
      ${attempts.map(
        ({ at, status, duration_ms: ms, error }) =>
          html`<li title=${inWords(Date.parse(at))}><${Ago} at=${at} />: ${error ?? status} <span class="quiet">${ms} ms</span></li>`,
      )}
    </ul>`,
  },
  { title: 'Next try', cell: ({ next_attempt_at }) => html`<${Ago} at=${next_attempt_at} />` },
];

/** Sends again what was not delivered since a moment. */
function Recover({ id, act }: { id: string; act: Act }): VNode {
  const [since, setSince] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    const body = { since: new Date(since).toISOString() };
    void act((endpoints) => endpoints.recover(id, body), 'What was not delivered since then is sent again.');
  };
  return html`<form class="with-button" onSubmit=${submit}>
    <${Field} label="Not delivered since" type="datetime-local" value=${since} onInput=${setSince} required />
    <button class="plain">Send again</button>
  </form>`;
}
