import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { Changes } from '../access-log/change-log.tsx';
import { Dialog } from '../shared/dialog.tsx';
import { useKeptPages } from '../shared/kept.ts';
import { pagesAt } from '../shared/load.ts';
import { recall } from '../shared/memory.ts';
import { Badge, Choice, type Column, Field, List, NoMatch, single } from '../shared/parts.tsx';
import { inWords } from '../shared/permissions.ts';
import { useParameters } from '../shared/router.ts';
import { type Session, useSession, withQuery } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { type Change, type Consumer, statusOf } from './consumer.ts';
import { CommonActions } from './consumer-actions.tsx';
import { ConsumerForm } from './consumer-form.tsx';

const names = ['search', 'status', 'mode'] as const;
type Filters = Record<(typeof names)[number], string>;
const none: Filters = { search: '', status: '', mode: '' };

const statuses: [value: string, text: string][] = [
  ['', 'All'],
  ['active', 'Active'],
  ['disabled', 'Disabled'],
  ['expired', 'Expired'],
  ['revoked', 'Revoked'],
];
const modes: [value: string, text: string][] = [
  ['', 'All'],
  ['live', 'Live'],
  ['test', 'Test'],
];

/** The last search, which the way back from a consumer leads to. */
function lastSearch({ memory }: Session): { address: string } {
  return recall(memory, 'consumers', () => ({ address: '#/consumers' }));
}

export function listAddress(session: Session): string {
  return lastSearch(session).address;
}

/** Consumers by name, status and kind. What is searched for stands in the address. */
export function ConsumerList(): VNode {
  const session = useSession();
  const [asked, ask] = useParameters(names);
  const [isCreating, create] = useState(false);
  useEffect(() => {
    lastSearch(session).address = location.hash;
  }, [asked]);
  const send: Change = async (path, options) => (await session.send(path, options)).text;
  return (
    <>
      <div class="title">
        <h1>Consumers</h1>
        {session.can('consumers', 'write') && (
          <button type="button" class="primary" onClick={single(() => create(true))}>
            New consumer…
          </button>
        )}
      </div>
      {isCreating && (
        <Dialog title="New consumer" onClose={() => create(false)} look="wide">
          <ConsumerForm edited={undefined} change={send} onClose={() => create(false)} />
        </Dialog>
      )}
      <Search asked={asked} ask={ask} />
      {asked.status === 'revoked' ? (
        <Changes
          asked={{ consumer_id: '', action: 'consumer.revoked', hours: '' }}
          empty={<p>No consumers were revoked recently.</p>}
        />
      ) : (
        <Results key={JSON.stringify(asked)} asked={asked} showAll={() => ask(none)} />
      )}
    </>
  );
}

interface SearchProps {
  asked: Filters;
  ask: (filters: Filters) => void;
}

function Search({ asked, ask }: SearchProps): VNode {
  const [typed, setTyped] = useState(asked.search);
  // At once: what somebody types before the browser paints is not to be lost.
  useLayoutEffect(() => setTyped(asked.search), [asked]);
  const submit = (event: Event) => {
    event.preventDefault();
    ask({ ...asked, search: typed.trim() });
  };
  return (
    <form class="filters" role="search" onSubmit={submit}>
      <Field
        label="Search"
        type="search"
        value={typed}
        onInput={setTyped}
        maxLength={100}
        placeholder="Name or ID"
      />
      <Choice
        label="Status"
        value={asked.status}
        options={statuses}
        onChange={(status) => ask({ ...asked, status })}
      />
      <Choice label="Keys" value={asked.mode} options={modes} onChange={(mode) => ask({ ...asked, mode })} />
      <button class="primary">Search</button>
    </form>
  );
}

interface ResultProps {
  asked: Filters;
  showAll: () => void;
}

function Results({ asked: { search, ...filters }, showAll }: ResultProps): VNode {
  const session = useSession();
  const path = withQuery('/v1/admin/consumers', { q: search, ...filters });
  const pages = useKeptPages<Consumer>(path, () => pagesAt(path));
  const change: Change = async (changed, options) => {
    const { text } = await session.send(changed, options);
    void pages.reload();
    return text;
  };
  const actions: Column<Consumer> = {
    title: 'Actions',
    cell: (consumer) => (
      <div class="buttons">
        <CommonActions consumer={consumer} change={change} />
      </div>
    ),
  };
  return (
    <List
      caption="Consumers"
      pages={pages}
      keyOf={({ id }: Consumer) => id}
      columns={session.can('consumers', 'write') ? [...columns, actions] : columns}
      empty={
        search || Object.values(filters).some(Boolean) ? (
          <NoMatch what="consumers" showAll={showAll} />
        ) : (
          <p>No consumers yet.</p>
        )
      }
    />
  );
}

const columns: Column<Consumer>[] = [
  {
    title: 'Name',
    cell: ({ name, id }) => (
      <>
        <a class="name" href={`#/consumers/${id}`}>
          {name}
        </a>
        <br />
        <code class="quiet">{id}</code>
      </>
    ),
  },
  {
    title: 'Status',
    cell: (consumer) => (
      <>
        <Badge>{statusOf(consumer)}</Badge> {consumer.mode === 'test' && <Badge>test</Badge>}
        {statusOf(consumer) === 'active' && consumer.validUntil && (
          <p class="quiet">
            until <Ago at={consumer.validUntil} />
          </p>
        )}
      </>
    ),
  },
  {
    title: 'Permissions',
    cell: ({ permissions }) => (
      <ul class="bare permission-list">
        {inWords(permissions).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    ),
  },
  { title: 'Last used', cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} /> },
];
