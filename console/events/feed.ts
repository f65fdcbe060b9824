import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Problem } from '../shared/api.ts';
import { html } from '../shared/html.ts';
import { fieldOf, partsOf } from '../shared/json-text.ts';
import { useLoad } from '../shared/load.ts';
import {
  Choice,
  type Column,
  Field,
  FoldedJson,
  Freshness,
  Id,
  ProblemAlert,
  Table,
} from '../shared/parts.ts';
import { type Session, withQuery } from '../shared/session.ts';
import { Ago } from '../shared/time.ts';

interface FeedEvent {
  id: string;
  type: string;
  occurred_at: string;
  resource: { type: string; id: string };
  /** JSON text, digit for digit. */
  data: string;
}

interface Read {
  /** Newest first. */
  events: FeedEvent[];
  /** There are more than are shown. */
  isCut: boolean;
}

/** The feed begins with the oldest; so many pages of 200 are read to come to the newest. */
const mostPages = 5;

const since: [value: string, text: string][] = [
  ['5', 'The last 5 minutes'],
  ['60', 'The last hour'],
  ['1440', 'The last day'],
  ['10080', 'The last week'],
];

const kinds = ['quote', 'booking', 'member'].flatMap((what) =>
  ['created', 'updated', 'deleted'].map((change) => `${what}.${change}`),
);
const types: [value: string, text: string][] = [
  '',
  ...kinds,
  'handoff.created',
  'handoff.failed',
  'reservation.confirmed',
  'reservation.cancelled',
  'reservation.failed',
  'reservation.needs_attention',
].map((type) => [type, type || 'All']);

const columns: Column<FeedEvent>[] = [
  { title: 'When', cell: ({ occurred_at }) => html`<${Ago} at=${occurred_at} />` },
  { title: 'Type', cell: ({ type }) => html`<code>${type}</code>` },
  {
    title: 'Resource',
    cell: ({ type, resource }) => html`<${Resource} type=${type} resource=${resource} />`,
  },
  {
    title: 'Data',
    cell: ({ data }) => html`<${FoldedJson} summary="Show" text=${data} label="Data" />`,
  },
];

function Resource({ type, resource }: Pick<FeedEvent, 'type' | 'resource'>): VNode {
  const isShown = ['quote', 'booking', 'member'].includes(resource.type) && !type.endsWith('.deleted');
  const id = html`<${Id}>${resource.id}</${Id}>`;
  return html`${resource.type} ${isShown ? html`<a href=${`#/records/${resource.type}s/${resource.id}`}>${id}</a>` : id}`;
}

export function Feed(): VNode {
  const [asked, ask] = useState({ type: '', resource_id: '', minutes: '60' });
  const [id, setId] = useState('');
  const loaded = useLoad(JSON.stringify(asked), (session) => readFeed(session, asked), 10_000);
  const { data, problem } = loaded;
  const submit = (event: Event) => {
    event.preventDefault();
    ask({ ...asked, resource_id: id.trim() });
  };
  return html`<form class="filters" onSubmit=${submit}>
      <${Choice} label="Since" value=${asked.minutes} options=${since} onChange=${(minutes: string) => ask({ ...asked, minutes })} />
      <${Choice} label="Type" value=${asked.type} options=${types} onChange=${(type: string) => ask({ ...asked, type })} />
      <${Field} label="Resource id" value=${id} onInput=${setId} />
      <button class="plain">Filter</button>
    </form>
    <${Freshness} of=${loaded} />
    ${problem && html`<${FeedProblem} problem=${problem} />`}
    ${data && html`<${Found} read=${data} />`}`;
}

function FeedProblem({ problem }: { problem: Problem }): VNode {
  if (problem.status !== 404) return html`<${ProblemAlert} problem=${problem} />`;
  return html`<div class="empty"><p>This service makes no events.</p><p>The setting changes.pollSeconds is 0.</p></div>`;
}

function Found({ read: { events, isCut } }: { read: Read }): VNode {
  if (events.length === 0)
    return html`<div class="empty">Nothing has happened in this time that you may see.</div>`;
  return html`${isCut && html`<p class="notice">There are more: newer ones are not shown. Choose a shorter time.</p>`}
    <${Table} caption="Events" columns=${columns} rows=${events} keyOf=${({ id }: FeedEvent) => id} />`;
}

interface Asked {
  type: string;
  resource_id: string;
  minutes: string;
}

async function readFeed({ send }: Session, { type, resource_id, minutes }: Asked): Promise<Read> {
  const events: FeedEvent[] = [];
  const moment = new Date(Date.now() - Number(minutes) * 60_000).toISOString();
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const { text } = await send(
      withQuery('/v1/events', { limit: '200', since: moment, type, resource_id, cursor }),
    );
    events.push(...partsOf(fieldOf(text, 'data') ?? '[]').map(readEvent));
    const { has_more, next_cursor } = JSON.parse(text) as { has_more: boolean; next_cursor: string };
    if (!has_more) return { events: events.toReversed(), isCut: false };
    cursor = next_cursor;
  }
  return { events: events.toReversed(), isCut: true };
}

function readEvent(text: string): FeedEvent {
  return { ...(JSON.parse(text) as FeedEvent), data: fieldOf(text, 'data') ?? 'null' };
}
