import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { fieldOf, partsOf } from '../shared/json-text.ts';
import { type ReadPage, usePages } from '../shared/load.ts';
import { Choice, type Column, Field, FoldedJson, Id, List, NoMatch } from '../shared/parts.tsx';
import { withQuery } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';

interface FeedEvent {
  id: string;
  type: string;
  occurred_at: string;
  resource: { type: string; id: string };
  /** JSON text, digit for digit. */
  data: string;
}

const kinds = ['quote', 'booking', 'member'].flatMap((what) =>
  ['created', 'updated', 'deleted'].map((change) => `${what}.${change}`),
);
const types: [value: string, text: string][] = [
  '',
  ...kinds,
  'handoff.awaiting_approval',
  'handoff.rejected',
  'handoff.created',
  'handoff.failed',
  'reservation.confirmed',
  'reservation.cancelled',
  'reservation.failed',
  'reservation.needs_attention',
].map((type) => [type, type || 'All']);

const columns: Column<FeedEvent>[] = [
  { title: 'When', cell: ({ occurred_at }) => <Ago at={occurred_at} /> },
  { title: 'Event', cell: ({ type }) => <code>{type}</code> },
  { title: 'Record', cell: (event) => <Subject event={event} /> },
  {
    title: 'Data',
    cell: ({ data }) => <FoldedJson summary="Show" text={data} label="Data" />,
  },
];

/** What it happened to, by name where it has one, with a link where there is a page of it. */
function Subject({ event: { type, resource, data } }: { event: FeedEvent }): VNode {
  const values = JSON.parse(data) as Record<string, unknown>;
  const name = nameIn(values) ?? <Id>{resource.id}</Id>;
  const link = linkTo(type, resource, values['type']);
  return (
    <>
      {link === undefined ? name : <a href={link}>{name}</a>}{' '}
      <span class="quiet">{resource.type.replaceAll('_', ' ')}</span>
    </>
  );
}

/** Where the console shows it now. `made`: what a hand-off becomes. */
function linkTo(type: string, resource: FeedEvent['resource'], made: unknown): string | undefined {
  if (type === 'handoff.created') return `#/records/${String(made)}s/${resource.id}`;
  if (resource.type === 'handoff') return '#/waiting';
  const isShown = ['quote', 'booking', 'member'].includes(resource.type) && !type.endsWith('.deleted');
  return isShown ? `#/records/${resource.type}s/${resource.id}` : undefined;
}

function nameIn({ name, first_name, last_name }: Record<string, unknown>): string | undefined {
  const parts = [name, first_name, last_name].filter((part) => typeof part === 'string' && part !== '');
  return parts.length > 0 ? parts.join(' ') : undefined;
}

/** What has happened, the newest first. */
export function Feed(): VNode {
  const [asked, ask] = useState({ type: '', resource_id: '' });
  const [id, setId] = useState('');
  const path = withQuery('/v1/events', { order: 'newest_first', ...asked });
  const pages = usePages<FeedEvent>(path, readPage(path), 5000);
  const submit = (event: Event) => {
    event.preventDefault();
    ask({ ...asked, resource_id: id.trim() });
  };
  if (pages.problem?.status === 404)
    return (
      <div class="empty">
        <p>Events are switched off.</p>
        <p>An administrator can switch them on with the setting changes.pollSeconds.</p>
      </div>
    );
  const isFiltered = Object.values(asked).some(Boolean);
  const showAll = () => {
    setId('');
    ask({ type: '', resource_id: '' });
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <Choice
          label="Event"
          value={asked.type}
          options={types}
          onChange={(type: string) => ask({ ...asked, type })}
        />
        <Field label="Record ID" value={id} onInput={setId} />
        <button class="plain">Filter</button>
      </form>
      <List
        caption="Events"
        pages={pages}
        columns={columns}
        keyOf={({ id: key }: FeedEvent) => key}
        empty={
          isFiltered ? (
            <NoMatch what="event" showAll={showAll} />
          ) : (
            <>
              <p>No events yet.</p>
              <p>They appear here as records are created, changed and deleted.</p>
            </>
          )
        }
      />
    </>
  );
}

/** A page may have no event that passes the filter, and others behind it. */
const mostPages = 10;

/** As text: every digit of the data counts. */
function readPage(path: string): ReadPage<FeedEvent> {
  return async ({ send }, cursor) => {
    let next: string | null = cursor ?? null;
    for (let page = 1; ; page++) {
      const { text } = await send(withQuery(path, { cursor: next ?? undefined }));
      const { has_more, next_cursor } = JSON.parse(text) as { has_more: boolean; next_cursor: string | null };
      const data = partsOf(fieldOf(text, 'data') ?? '[]').map(readEvent);
      if (data.length > 0 || !has_more || page === mostPages) return { data, has_more, next_cursor };
      next = next_cursor;
    }
  };
}

function readEvent(text: string): FeedEvent {
  return { ...(JSON.parse(text) as FeedEvent), data: fieldOf(text, 'data') ?? 'null' };
}
