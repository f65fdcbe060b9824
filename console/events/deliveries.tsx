import type { ListWebhookDeliveriesQuery, WebhookDelivery } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type ReadPage, useLoad, usePages } from '../shared/load.ts';
import {
  Badge,
  Choice,
  type Column,
  Field,
  Id,
  Json,
  List,
  NoMatch,
  ProblemAlert,
  single,
} from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { Ago, dateAndTime } from '../shared/time.tsx';
import { errorInWords } from './ping-result.tsx';
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
  const sent: Column<WebhookDelivery> = {
    title: 'Sent',
    cell: (delivery) => <Sent endpointId={id} delivery={delivery} />,
  };
  const resend: Column<WebhookDelivery> = {
    title: 'Actions',
    cell: (delivery) => (
      <button
        type="button"
        class="plain"
        onClick={single(() => void act((endpoints) => endpoints.resend(id, delivery.id)))}
      >
        Resend
      </button>
    ),
  };
  return (
    <>
      <p class="crumbs">
        <a href="#/events/endpoints">Back to endpoints</a>
      </p>
      <h2>{endpoint.data?.url ?? 'Deliveries'}</h2>
      {problem && <ProblemAlert problem={problem} isAnswer />}
      {notice && (
        <p class="notice" role="status">
          {notice}
        </p>
      )}
      <div class="filters">
        <Choice label="Status" value={status} options={filters} onChange={setStatus} />
        {canSend && <Recover id={id} act={act} />}
      </div>
      <List
        caption="Deliveries"
        pages={pages}
        columns={[...columns, sent, ...(canSend ? [resend] : [])]}
        keyOf={(delivery: WebhookDelivery) => delivery.id}
        empty={
          status ? (
            <NoMatch what="deliveries" showAll={() => setStatus('')} />
          ) : (
            <>
              <p>Nothing sent yet.</p>
              <p>Send a test from the list of endpoints.</p>
            </>
          )
        }
      />
    </>
  );
}

const columns: Column<WebhookDelivery>[] = [
  {
    title: 'Event',
    cell: ({ event_type, event_id }) => (
      <>
        <code>{event_type}</code>
        <br />
        <Id>{event_id}</Id>
      </>
    ),
  },
  { title: 'Status', cell: ({ status }) => <Badge>{status}</Badge> },
  {
    title: 'Attempts',
    cell: ({ attempts }) => (
      <ul class="bare tries">
        {attempts.map(({ at, status, duration_ms: ms, error }) => (
          <li>
            <Ago at={at} /> <strong>{error === null ? status : errorInWords(error)}</strong>{' '}
            <span class="quiet">in {ms} ms</span>
          </li>
        ))}
      </ul>
    ),
  },
  { title: 'Next attempt', cell: ({ next_attempt_at }) => <Ago at={next_attempt_at} /> },
];

interface SentProps {
  endpointId: string;
  delivery: WebhookDelivery;
}

/** The body of a delivery, read when somebody unfolds it. */
function Sent({ endpointId, delivery: { event_id, event_type } }: SentProps): VNode {
  const { client } = useSession();
  const [body, setBody] = useState<string | null | undefined>();
  const read = async (event: Event) => {
    if (!(event.currentTarget as HTMLDetailsElement).open || body !== undefined) return;
    // Where it fails, opening it again tries again.
    const page = await client.webhookEndpoints
      .deliveries(endpointId, { event_id })
      .page()
      .catch(() => undefined);
    if (page) setBody(page.data[0]?.body ?? null);
  };
  return (
    <details onToggle={read}>
      <summary>Show</summary>
      {body === null && <p class="quiet">This event is no longer stored.</p>}
      {body && <Json text={body} label={`${event_type} body`} />}
    </details>
  );
}

/** Sends again what was not delivered since a moment. */
function Recover({ id, act }: { id: string; act: Act }): VNode {
  const [since, setSince] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    const body = { since: new Date(since).toISOString() };
    void act(
      (endpoints) => endpoints.recover(id, body),
      `Resending undelivered events since ${dateAndTime(Date.parse(body.since))}.`,
    );
  };
  return (
    <form class="with-button" onSubmit={submit}>
      <Field
        label="Resend undelivered events since"
        type="datetime-local"
        value={since}
        onInput={setSince}
        required
      />
      <button class="plain">Resend events</button>
    </form>
  );
}
