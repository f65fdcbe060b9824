import type { Reservation } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useLoad } from '../shared/load.ts';
import { MemberLink } from '../shared/member-link.tsx';
import { includedIn, useMembers } from '../shared/members.ts';
import { Badge, Freshness, LoadProblem, Skeleton } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { useDocumentTitle, useHeading } from '../shared/title.ts';
import { CopyableId } from '../shared/value.tsx';
import { History } from './history.tsx';
import { MakerName } from './maker.tsx';
import { TableTime } from './table-time.tsx';

/** A table at the dining partner and its booking, and what became of them. */
export function ReservationPage({ id }: { id: string }): VNode {
  const path = `/v1/reservations/${encodeURIComponent(id)}`;
  const loaded = useLoad(path, (session) =>
    session.client.reservations.retrieve(id, { include: includedIn(session, 'bookings') }),
  );
  const { data } = loaded;
  const heading = useHeading();
  const name = data && (data.name || 'Unnamed reservation');
  useDocumentTitle(name);
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="#/reservations">Reservations</a>
      </nav>
      <div class="title">
        <h1 ref={heading} tabindex={-1}>
          {name ?? 'Reservation'}
        </h1>
        <Badge>{data?.status}</Badge>
      </div>
      <Freshness of={loaded} />
      <LoadProblem of={loaded} />
      <div class="beside">
        <div class="stack">
          {loaded.isLoading && data === undefined && <Skeleton />}
          {data && <Overview reservation={data} />}
        </div>
        <History path={path} what="reservation" />
      </div>
    </>
  );
}

function Overview({ reservation }: { reservation: Reservation }): VNode {
  const { id, member_id, member, trip_id, booking, dining, created_by, created_at, updated_at } = reservation;
  const { can } = useSession();
  const memberOf = useMembers(member ? [] : [member_id]);
  return (
    <section class="panel" aria-label="Overview">
      <dl class="fields">
        {dining && (
          <>
            <dt>Table</dt>
            <dd>
              <TableTime at={dining.start_at} timeZone={dining.time_zone} />
            </dd>
            <dt>Guests</dt>
            <dd>{dining.party_size}</dd>
            <dt>Table status</dt>
            <dd>
              <Badge>{dining.status ?? 'none'}</Badge>
            </dd>
            <dt>Partner's booking</dt>
            <dd>
              {dining.booking_id ? <CopyableId id={dining.booking_id} what="the partner's booking" /> : '–'}
            </dd>
          </>
        )}
        <dt>Booking</dt>
        <dd>
          <a href={`#/records/bookings/${booking.id}`}>{booking.status ?? 'The booking'}</a>
        </dd>
        <dt>Member</dt>
        <dd>
          <MemberLink id={member_id} member={member ?? memberOf(member_id)} />
        </dd>
        <dt>Created by</dt>
        <dd>
          <MakerName maker={created_by} />
        </dd>
        <dt>Created</dt>
        <dd>
          <Ago at={created_at} />
        </dd>
        <dt>Changed</dt>
        <dd>
          <Ago at={updated_at} />
        </dd>
        <dt>Trip</dt>
        <dd>
          {trip_id && <CopyableId id={trip_id} what="the trip's ID" />}{' '}
          {can('bookings', 'read') && trip_id && <a href={`#/trips/${trip_id}`}>Show the trip</a>}
        </dd>
        <dt>ID</dt>
        <dd>
          <CopyableId id={id} what="ID" />
        </dd>
      </dl>
    </section>
  );
}
