import type { Booking, Member, Quote } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { usePages } from '../shared/load.ts';
import { Badge, type Column, Field, Id, List } from '../shared/parts.ts';
import { onlyGiven, useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.ts';
import { RecordPage } from './record-page.ts';

type RecordRow = Quote | Booking;

const collections = ['quotes', 'bookings', 'members'] as const;
type Collection = (typeof collections)[number];

/** The records of the CRM that the consumer may read. `route`: the collection, and the record's id. */
export function RecordsPage({ route }: { route: string[] }): VNode {
  const { can } = useSession();
  const allowed = collections.filter((one) => can(one, 'read'));
  const collection = allowed.find((one) => one === route[0]) ?? allowed[0];
  const id = route[1];
  return html`<h1>Records</h1>
    <div class="tabs" role="group" aria-label="Kinds of records">
      ${allowed.map(
        (one) =>
          html`<a href=${`#/records/${one}`} aria-current=${one === collection ? 'page' : undefined}>${titles[one]}</a>`,
      )}
    </div>
    ${
      id !== undefined && collection !== undefined
        ? html`<${RecordPage} key=${id} collection=${collection} id=${id} />`
        : collection === 'members'
          ? html`<${Members} />`
          : collection && html`<${Records} key=${collection} collection=${collection} />`
    }`;
}

const titles: Record<Collection, string> = { quotes: 'Quotes', bookings: 'Bookings', members: 'Members' };

function Records({ collection }: { collection: 'quotes' | 'bookings' }): VNode {
  const [filters, setFilters] = useState({ trip_id: '', member_id: '', status: '' });
  const [asked, ask] = useState(filters);
  const pages = usePages<RecordRow>(JSON.stringify([collection, asked]), ({ client }, cursor) =>
    client[collection].list({ ...onlyGiven(asked), cursor }).page(),
  );
  const set = (name: keyof typeof filters) => (value: string) =>
    setFilters({ ...filters, [name]: value.trim() });
  const submit = (event: Event) => {
    event.preventDefault();
    ask(filters);
  };
  const isFiltered = Object.values(asked).some(Boolean);
  const columns: Column<RecordRow>[] = [
    {
      title: 'Name',
      cell: ({ id, name }) =>
        html`<a href=${`#/records/${collection}/${id}`}>${name || 'Without a name'}</a>`,
    },
    { title: 'Supplier', cell: ({ source }) => source },
    { title: 'Status', cell: ({ status }) => html`<${Badge}>${status ?? ''}</${Badge}>` },
    { title: 'Member', cell: ({ member_id }) => html`<${Id}>${member_id}</${Id}>` },
    { title: 'Trip', cell: ({ trip_id }) => html`<${Id}>${trip_id}</${Id}>` },
    { title: 'Created', cell: ({ created_at }) => html`<${Ago} at=${created_at} />` },
  ];
  return html`<form class="filters" onSubmit=${submit}>
      <${Field} label="Trip" value=${filters.trip_id} onInput=${set('trip_id')} />
      <${Field} label="Member" value=${filters.member_id} onInput=${set('member_id')} />
      <${Field} label="Status" value=${filters.status} onInput=${set('status')} />
      <button class="plain">Filter</button>
    </form>
    <${List} caption=${titles[collection]} pages=${pages} columns=${columns} keyOf=${({ id }: RecordRow) => id}
      empty=${isFiltered ? 'Nothing matches these filters.' : html`<p>No ${collection} yet.</p><p>Each hand-off makes one.</p>`} />`;
}

function Members(): VNode {
  const [email, setEmail] = useState('');
  const [asked, ask] = useState('');
  const pages = usePages<Member>(asked, ({ client }, cursor) =>
    client.members.list({ ...onlyGiven({ email: asked }), cursor }).page(),
  );
  const submit = (event: Event) => {
    event.preventDefault();
    ask(email.trim());
  };
  const columns: Column<Member>[] = [
    {
      title: 'Name',
      cell: ({ id, first_name, last_name }) =>
        html`<a href=${`#/records/members/${id}`}>${[first_name, last_name].filter(Boolean).join(' ') || 'Without a name'}</a>`,
    },
    { title: 'E-mail', cell: (row) => row.email },
    { title: 'Phone', cell: ({ phone }) => phone },
    { title: 'External ID', cell: ({ id }) => html`<${Id}>${id}</${Id}>` },
    { title: 'Changed', cell: ({ updated_at }) => html`<${Ago} at=${updated_at} />` },
  ];
  return html`<form class="filters" onSubmit=${submit}>
      <${Field} label="E-mail" type="search" value=${email} onInput=${setEmail} />
      <button class="plain">Filter</button>
    </form>
    <${List} caption="Members" pages=${pages} columns=${columns} keyOf=${({ id }: Member) => id}
      empty=${asked ? 'No member has this e-mail address.' : 'The CRM has no members with an External ID.'} />`;
}
