import type { VNode } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { GlanceLine } from '../shared/at-a-glance.tsx';
import { fieldOf, partsOf } from '../shared/json-text.ts';
import { type ReadPage, usePages } from '../shared/load.ts';
import { MemberLink } from '../shared/member-link.tsx';
import { includedIn, useMembers } from '../shared/members.ts';
import { Amount } from '../shared/money.tsx';
import { Choice, type Column, Field, FoldedJson, Id, List, NoMatch } from '../shared/parts.tsx';
import { useParameters } from '../shared/router.ts';
import { withQuery } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { type FeedEvent, nameSubjects, type Subject } from './subjects.ts';

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

const orders: [value: string, text: string][] = [
  ['', 'Newest first'],
  ['oldest_first', 'Oldest first'],
];

interface RecordProps {
  event: FeedEvent;
  subject: Subject;
}

const words: { [type: string]: string } = { handoff: 'hand-off', webhook_endpoint: 'webhook endpoint' };

/** What it happened to, by name where it has one, with a link where there is a page of it. */
function Record({ event: { type, resource, data }, subject }: RecordProps): VNode {
  const { type: made } = JSON.parse(data) as { type?: string };
  const name = subject.name ?? <Id>{resource.id}</Id>;
  const link = linkTo(type, resource, made);
  return (
    <>
      {link === undefined ? (
        name
      ) : (
        <a class="name" href={link}>
          {name}
        </a>
      )}{' '}
      <span class="quiet">{words[resource.type] ?? resource.type}</span>
      <GlanceLine facts={{ ...subject.facts, price: undefined }} />
    </>
  );
}

/** Where the console shows it now. `made`: what a hand-off becomes. */
function linkTo(type: string, { type: kind, id }: FeedEvent['resource'], made: unknown): string | undefined {
  if (type === 'handoff.created') return `#/records/${String(made)}s/${id}`;
  if (type.endsWith('.deleted')) return undefined;
  return addresses[kind]?.(id);
}

const addresses: { [kind: string]: (id: string) => string } = {
  quote: (id) => `#/records/quotes/${id}`,
  booking: (id) => `#/records/bookings/${id}`,
  member: (id) => `#/records/members/${id}`,
  handoff: (id) => `#/handoffs/${id}`,
  reservation: (id) => `#/reservations/${id}`,
  webhook_endpoint: (id) => `#/events/endpoints/${id}`,
};

/** The columns, with names for these events. */
function useColumns(events: readonly FeedEvent[]): Column<FeedEvent>[] {
  const subjectOf = nameSubjects(events);
  const unnamed = events.map(subjectOf).filter(({ member }) => member === undefined);
  const memberOf = useMembers(unnamed.flatMap(({ memberId }) => memberId ?? []));
  return [
    { title: 'When', cell: ({ occurred_at }) => <Ago at={occurred_at} /> },
    { title: 'Event', cell: ({ type }) => <code>{type}</code> },
    { title: 'Record', cell: (event) => <Record event={event} subject={subjectOf(event)} /> },
    {
      title: 'Member',
      cell: (event) => {
        const { memberId, member } = subjectOf(event);
        return memberId && <MemberLink id={memberId} member={member ?? memberOf(memberId)} />;
      },
    },
    {
      title: 'Amount',
      isNumber: true,
      cell: (event) => {
        const { price } = subjectOf(event).facts;
        return price && <Amount money={price} />;
      },
    },
    {
      title: 'Data',
      cell: ({ data }) => <FoldedJson summary="Show" text={data} label="Data" />,
    },
  ];
}

const filters = ['type', 'resource_id', 'order'] as const;

/** Filters and order stand in the address. */
export function Feed(): VNode {
  const [asked, ask] = useParameters(filters);
  const { order, ...filter } = asked;
  const isFiltered = Object.values(filter).some(Boolean);
  return (
    <>
      <Filters asked={asked} ask={ask} />
      <Events
        key={JSON.stringify(asked)}
        path={withQuery('/v1/events', { order: order || 'newest_first', include: 'record', ...filter })}
        showAll={isFiltered ? () => ask({ type: '', resource_id: '', order }) : undefined}
      />
    </>
  );
}

interface FiltersProps {
  asked: Record<(typeof filters)[number], string>;
  ask: (wanted: FiltersProps['asked']) => void;
}

function Filters({ asked, ask }: FiltersProps): VNode {
  const [id, setId] = useState(asked.resource_id);
  useLayoutEffect(() => setId(asked.resource_id), [asked]);
  const submit = (event: Event) => {
    event.preventDefault();
    ask({ ...asked, resource_id: id.trim() });
  };
  return (
    <form class="filters" onSubmit={submit}>
      <Choice
        label="Event"
        value={asked.type}
        options={types}
        onChange={(type: string) => ask({ ...asked, type })}
      />
      <Choice
        label="Order"
        value={asked.order}
        options={orders}
        onChange={(order: string) => ask({ ...asked, order })}
      />
      <Field label="Record ID" value={id} onInput={setId} />
      <button class="plain">Filter</button>
    </form>
  );
}

interface EventsProps {
  path: string;
  /** Undefined without a filter. */
  showAll: (() => void) | undefined;
}

function Events({ path, showAll }: EventsProps): VNode {
  const pages = usePages<FeedEvent>(path, readPage(path), 5000);
  const columns = useColumns(pages.data ?? []);
  if (pages.problem?.status === 404)
    return (
      <div class="empty">
        <p>Events are turned off.</p>
        <p>An administrator can turn them on with the changes.pollSeconds setting.</p>
      </div>
    );
  return (
    <List
      caption="Events"
      pages={pages}
      columns={columns}
      keyOf={({ id: key }: FeedEvent) => key}
      empty={
        showAll ? (
          <NoMatch what="events" showAll={showAll} />
        ) : (
          <>
            <p>No events yet.</p>
            <p>They appear here as records are created, changed and deleted.</p>
          </>
        )
      }
    />
  );
}

/** A page may have no event that passes the filter, and others behind it. */
const mostPages = 10;

/** As text: every digit of the data counts. */
function readPage(path: string): ReadPage<FeedEvent> {
  return async (session, cursor) => {
    const include = includedIn(session, 'quotes', 'bookings');
    let next: string | null = cursor ?? null;
    for (let page = 1; ; page++) {
      const { text } = await session.send(withQuery(path, { include, cursor: next ?? undefined }));
      const { has_more, next_cursor } = JSON.parse(text) as { has_more: boolean; next_cursor: string | null };
      const data = partsOf(fieldOf(text, 'data') ?? '[]').map(readEvent);
      if (data.length > 0 || !has_more || page === mostPages) return { data, has_more, next_cursor };
      next = next_cursor;
    }
  };
}

function readEvent(text: string): FeedEvent {
  const data = fieldOf(text, 'data') ?? 'null';
  return { ...(JSON.parse(text) as FeedEvent), data, record: fieldOf(text, 'record') };
}
