import type { ListReservationsQuery, Reservation } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from './shared/html.ts';
import { usePages } from './shared/load.ts';
import { Badge, Choice, type Column, Field, Id, List } from './shared/parts.ts';
import { onlyGiven } from './shared/session.ts';
import { Ago } from './shared/time.ts';

type Status = NonNullable<ListReservationsQuery['status']>;

const filters: [value: Status | '', text: string][] = [
  ['', 'All'],
  ['needs_attention', 'Needs attention'],
  ['pending', 'Pending'],
  ['confirmed', 'Confirmed'],
  ['cancelled', 'Cancelled'],
  ['failed', 'Failed'],
];

const columns: Column<Reservation>[] = [
  { title: 'Name', cell: ({ name }) => name ?? html`<span class="quiet">erased</span>` },
  { title: 'Status', cell: ({ status }) => html`<${Badge}>${status}</${Badge}>` },
  { title: 'Table', cell: ({ dining }) => dining && html`<${Ago} at=${dining.start_at} />` },
  { title: 'Guests', cell: ({ dining }) => dining?.party_size, isNumber: true },
  { title: 'Member', cell: ({ member_id }) => html`<${Id}>${member_id}</${Id}>` },
  { title: 'Trip', cell: ({ trip_id }) => html`<${Id}>${trip_id}</${Id}>` },
  {
    title: 'Booking',
    cell: ({ booking }) =>
      booking && html`<a href=${`#/records/bookings/${booking.id}`}>${booking.status ?? 'booking'}</a>`,
  },
  { title: 'Created', cell: ({ created_at }) => html`<${Ago} at=${created_at} />` },
];

/** Tables at the dining partner, each with its booking in the CRM. */
export function ReservationsPage(): VNode {
  const [asked, ask] = useState<{ status: Status | ''; trip_id: string }>({ status: '', trip_id: '' });
  const [trip, setTrip] = useState('');
  const pages = usePages<Reservation>(JSON.stringify(asked), ({ client }, cursor) =>
    client.reservations.list({ ...onlyGiven(asked), cursor }).page(),
  );
  const submit = (event: Event) => {
    event.preventDefault();
    ask({ ...asked, trip_id: trip.trim() });
  };
  return html`<h1>Reservations</h1>
    <form class="filters" onSubmit=${submit}>
      <${Choice} label="Status" value=${asked.status} options=${filters}
        onChange=${(status: Status | '') => ask({ ...asked, status })} />
      <${Field} label="Trip" value=${trip} onInput=${setTrip} />
      <button class="plain">Filter</button>
    </form>
    ${
      asked.status === 'needs_attention' &&
      html`<p class="notice">Partner and CRM differ, and the service could not settle it. Compare both, then correct one of them by hand.</p>`
    }
    <${List} caption="Reservations" pages=${pages} columns=${columns} keyOf=${({ id }: Reservation) => id}
      empty=${Object.values(asked).some(Boolean) ? 'No reservation matches these filters.' : 'No table has been reserved yet.'} />`;
}
