import type { WebhookEndpoint } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Problem } from '../shared/api.ts';
import { Question } from '../shared/dialog.tsx';
import { faultAt, hintOf, isShownAt } from '../shared/faults.ts';
import { type ReadPage, usePages } from '../shared/load.ts';
import { type Column, Field, List, ProblemAlert, single } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { inWords } from '../shared/time.tsx';
import { EndpointState } from './endpoint-state.tsx';
import { PingResult } from './ping-result.tsx';
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
    cell: (endpoint) => <Actions endpoint={endpoint} act={act} reload={pages.reload} />,
  };
  return (
    <>
      {problem && <ProblemAlert problem={problem} isAnswer />}
      {notice && (
        <p class="notice" role="status">
          {notice}
        </p>
      )}
      {can('webhooks', 'write') && <EndpointForm act={act} />}
      <List
        caption="Webhook endpoints"
        pages={pages}
        columns={[...columns, actions]}
        keyOf={({ id }: WebhookEndpoint) => id}
        empty={
          <>
            <p>No webhook endpoints yet.</p>
            <p>Create one to get events as they happen.</p>
          </>
        }
      />
    </>
  );
}

const columns: Column<WebhookEndpoint>[] = [
  {
    title: 'Address',
    cell: ({ id, url, description }) => (
      <>
        <a href={`#/events/endpoints/${id}`}>{url}</a>
        {description && (
          <>
            <br />
            <span class="quiet">{description}</span>
          </>
        )}
      </>
    ),
  },
  { title: 'Events', cell: ({ event_types }) => event_types.join(', ') || 'all' },
  { title: 'State', cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
];

interface ActionsProps {
  endpoint: WebhookEndpoint;
  act: Act;
  reload: () => Promise<void>;
}

function Actions({ endpoint, act, reload }: ActionsProps): VNode {
  const { can, client, say, showSecret } = useSession();
  const [asking, ask] = useState<'rotate' | 'delete' | undefined>();
  const [ping, setPing] = useState<string | undefined>();
  const { id, enabled, url } = endpoint;
  const test = async () => {
    setPing(undefined);
    setPing((await act((endpoints) => endpoints.test(id)))?.event_id);
  };
  const rotate = async () => {
    const { secret, previous_expires_at: end } = await client.webhookEndpoints.rotateSecret(id);
    const note = `Until ${inWords(Date.parse(end))}, messages are also signed with the old secret.`;
    showSecret({ title: `New secret for ${url}`, secret, note });
  };
  const remove = async () => {
    await client.webhookEndpoints.delete(id);
    say(`Deleted ${url}.`);
    void reload();
  };
  const close = () => ask(undefined);
  const button = (name: string, onClick: () => void) => (
    <button type="button" class="plain" onClick={single(onClick)}>
      {name}
    </button>
  );
  return (
    <>
      {ping !== undefined && <PingResult key={ping} endpointId={id} eventId={ping} />}
      <div class="buttons">
        {can('webhooks', 'write') && (
          <>
            {button('Send a test', () => void test())}
            {button('Rotate secret…', () => ask('rotate'))}
            {button(
              enabled ? 'Disable' : 'Enable',
              () => void act((endpoints) => endpoints.update(id, { enabled: !enabled })),
            )}
          </>
        )}
        {can('webhooks', 'delete') && button('Delete…', () => ask('delete'))}
      </div>
      {asking === 'rotate' && (
        <Question title="Rotate the secret?" action="Rotate now" act={rotate} onClose={close}>
          <p>
            <code>{url}</code> gets a new secret, which is shown once. For 24 hours, messages are also signed
            with the old one.
          </p>
        </Question>
      )}
      {asking === 'delete' && (
        <Question title="Delete the endpoint?" action="Delete now" isDanger act={remove} onClose={close}>
          <p>
            <code>{url}</code> gets no more events. Events it hasn't received yet are lost.
          </p>
        </Question>
      )}
    </>
  );
}

function EndpointForm({ act }: { act: Act }): VNode {
  const { showSecret } = useSession();
  const [draft, setDraft] = useState(empty);
  const [problem, setProblem] = useState<Problem | undefined>();
  const types = draft.types.split(/[\s,]+/).filter(Boolean);
  const set = (name: keyof typeof empty) => (value: string) => setDraft({ ...draft, [name]: value });
  const submit = async (event: Event) => {
    event.preventDefault();
    setProblem(undefined);
    const { url, description } = draft;
    const body = {
      url: url.trim(),
      ...(types.length > 0 && { event_types: types }),
      ...(description && { description }),
    };
    const made = await act((endpoints) => endpoints.create(body), '', setProblem);
    if (made === undefined) return;
    setDraft(empty);
    showSecret({
      title: `Secret for ${body.url}`,
      secret: made.secret,
      note: 'Your program needs it to check event signatures.',
    });
  };
  return (
    <form class="filters" onSubmit={submit}>
      <Field
        label="Address"
        type="url"
        value={draft.url}
        onInput={set('url')}
        required
        placeholder="https://…"
        {...hintOf(faultAt(problem, 'url'))}
      />
      <Field
        label="Event types"
        value={draft.types}
        onInput={set('types')}
        placeholder="all, or quote.*, booking.updated"
        {...hintOf(faultAt(problem, 'event_types', types))}
      />
      <Field label="Description" value={draft.description} onInput={set('description')} maxLength={255} />
      <button class="primary">Create endpoint</button>
      {problem && !isShownAt(problem, ['url', 'event_types']) && <ProblemAlert problem={problem} />}
    </form>
  );
}

const empty = { url: '', types: '', description: '' };
