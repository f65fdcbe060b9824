import type { ListReservationsQuery, Reservation } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { ReservationPage } from './records/reservation-page.tsx';
import { TableTime } from './records/table-time.tsx';
import { hintOf } from './shared/faults.ts';
import { useKeptPages } from './shared/kept.ts';
import { MemberLink } from './shared/member-link.tsx';
import { includedIn } from './shared/members.ts';
import { crmName } from './shared/page-facts.ts';
import { Badge, Choice, type Column, Field, List } from './shared/parts.tsx';
import { useParameters } from './shared/router.ts';
import { onlyGiven } from './shared/session.ts';
import { Ago } from './shared/time.tsx';
import { faultOfId } from './shared/uuid.ts';

type Status = NonNullable<ListReservationsQuery['status']>;

const filters: [value: Status | '', text: string][] = [
  ['', 'All'],
  ['needs_attention', 'Needs attention'],
  ['pending', 'Pending'],
  ['confirmed', 'Confirmed'],
  ['cancelled', 'Cancelled'],
  ['failed', 'Failed'],
];

const names = ['status', 'trip_id'] as const;

/** Tables at the dining partner, each with its booking in the CRM. `route`: the id of one. */
export function ReservationsPage({ route: [id] }: { route: string[] }): VNode {
  return id === undefined ? <Reservations /> : <ReservationPage key={id} id={id} />;
}

function Reservations(): VNode {
  const [asked, ask] = useParameters(names);
  const [trip, setTrip] = useState(asked.trip_id);
  useLayoutEffect(() => setTrip(asked.trip_id), [asked]);
  const fault = faultOfId('trip', asked.trip_id);
  const submit = (event: Event) => {
    event.preventDefault();
    ask({ ...asked, trip_id: trip.trim() });
  };
  return (
    <>
      <h1>Reservations</h1>
      <form class="filters" role="search" onSubmit={submit}>
        <Choice
          label="Status"
          value={asked.status as Status | ''}
          options={filters}
          onChange={(status: Status | '') => ask({ ...asked, status })}
        />
        <Field
          label="Trip"
          value={trip}
          onInput={setTrip}
          placeholder="Trip ID"
          {...hintOf(trip === asked.trip_id ? fault : undefined)}
        />
        <button class="primary">Search</button>
      </form>
      {asked.status === 'needs_attention' && (
        <p class="notice">
          The dining partner and {crmName} disagree, and we couldn't resolve it. Compare the two, then correct
          one by hand.
        </p>
      )}
      {fault === undefined && <Results key={JSON.stringify(asked)} asked={asked} />}
    </>
  );
}

function Results({ asked }: { asked: { status: string; trip_id: string } }): VNode {
  const pages = useKeptPages<Reservation>(
    JSON.stringify(asked),
    () => (session, cursor) =>
      session.client.reservations
        .list({
          ...onlyGiven({ ...asked, status: asked.status as Status | '' }),
          include: includedIn(session, 'bookings'),
          cursor,
        })
        .page(),
  );
  const isFiltered = Object.values(asked).some(Boolean);
  return (
    <List
      caption="Reservations"
      pages={pages}
      columns={columns}
      keyOf={({ id }: Reservation) => id}
      empty={
        isFiltered ? (
          <>
            <p>No reservations match these filters.</p>
            <p>
              <a href="#/reservations">Show all reservations</a>
            </p>
          </>
        ) : (
          <>
            <p>No reservations yet.</p>
            <p>
              Programs reserve tables with <code>POST /v1/reservations</code>.
            </p>
          </>
        )
      }
    />
  );
}

const columns: Column<Reservation>[] = [
  {
    title: 'Name',
    cell: ({ id, name }) => (
      <a class="name" href={`#/reservations/${id}`}>
        {name || 'Unnamed'}
      </a>
    ),
  },
  {
    title: 'Table',
    cell: ({ dining }) => dining && <TableTime at={dining.start_at} timeZone={dining.time_zone} />,
  },
  { title: 'Guests', cell: ({ dining }) => dining?.party_size, isNumber: true },
  {
    title: 'Member',
    cell: ({ member_id: id, member }) => <MemberLink id={id} member={member ?? undefined} />,
  },
  { title: 'Status', cell: ({ status }) => <Badge>{status}</Badge> },
  {
    title: `${crmName} booking`,
    cell: ({ booking }) =>
      booking && <a href={`#/records/bookings/${booking.id}`}>{booking.status ?? 'booking'}</a>,
  },
  { title: 'Created', cell: ({ created_at }) => <Ago at={created_at} /> },
];
