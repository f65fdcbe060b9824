import type { HistoryEntry, Trip } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { Timeline } from '../records/history.tsx';
import { GlanceLine } from '../shared/at-a-glance.tsx';
import { type AtAGlance, glance } from '../shared/guess.ts';
import { useHandoffFacts } from '../shared/handoff-facts.ts';
import { parseDigits } from '../shared/json-text.ts';
import { type Loaded, useLoad } from '../shared/load.ts';
import { MemberLink } from '../shared/member-link.tsx';
import { type Named, useMembers } from '../shared/members.ts';
import { Amount, sums } from '../shared/money.tsx';
import { withCrmName } from '../shared/page-facts.ts';
import { Badge, type Column, Freshness, LoadProblem, Skeleton, Table } from '../shared/parts.tsx';
import { listOf } from '../shared/permissions.ts';
import { type Session, useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { useDocumentTitle, useHeading } from '../shared/title.ts';
import { CopyableId } from '../shared/value.tsx';

/** A quote, booking, reservation or hand-off of the trip, as one row. */
interface Item {
  what: 'Quote' | 'Booking' | 'Reservation' | 'Hand-off';
  id: string;
  name: string;
  source: string;
  status: string;
  address: string;
  /** Path of the record in the API. */
  path: string;
  facts: AtAGlance;
  /** Why the hand-off failed, or the last one that was to update this record. */
  failure?: string | undefined;
  /** RFC 3339. */
  createdAt: string | null;
}

/** A trip: whose it is, what belongs to it and what it costs, what waits, and what happened. */
export function TripPage({ route: [id = ''] }: { route: string[] }): VNode {
  const path = `/v1/trips/${encodeURIComponent(id)}`;
  const loaded = useTrip(path);
  const { data, problem } = loaded;
  const heading = useHeading();
  const title = data && titleOf(data);
  useDocumentTitle(title);
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="#/records/quotes">Records</a>
      </nav>
      <div class="title">
        <h1 ref={heading} tabindex={-1}>
          {title ?? 'Trip'}
        </h1>
      </div>
      <Freshness of={loaded} />
      <LoadProblem of={loaded}>
        {problem?.status === 404 && (
          <p>Nothing has been handed off for this trip yet, or you don't have access to it.</p>
        )}
      </LoadProblem>
      {loaded.isLoading && data === undefined && <Skeleton />}
      {data && <Shown trip={data} />}
    </>
  );
}

/** With the names of members that the trip has by their ids alone, as those of hand-offs that wait. */
function useTrip(path: string): Loaded<Trip> {
  // Text: every digit of an amount counts.
  const loaded = useLoad(path, async ({ send }) => parseDigits((await send(path)).text) as Trip);
  const { data } = loaded;
  const unnamed = data?.members.filter(isUnnamed) ?? [];
  const named = useMembers(unnamed.map(({ id }) => id));
  const members = data?.members.map((one) => (isUnnamed(one) && named(one.id)) || one) ?? [];
  return { ...loaded, data: data && { ...data, members } };
}

function isUnnamed({ first_name, last_name }: Named): boolean {
  return !first_name && !last_name;
}

function titleOf({ members }: Trip): string {
  const names = members.map(({ first_name, last_name }) => [first_name, last_name].filter(Boolean).join(' '));
  const known = names.filter(Boolean);
  return known.length > 0 ? `${listOf(known)}'s trip` : 'Trip';
}

function Shown({ trip }: { trip: Trip }): VNode {
  const { can } = useSession();
  const factsOf = useHandoffFacts(trip.handoffs);
  const items = itemsOf(trip, factsOf);
  const made = items.filter(({ what }) => what !== 'Hand-off');
  const waiting = items.filter(({ what }) => what === 'Hand-off');
  return (
    <div class="beside">
      <div class="stack">
        <section class="panel" aria-label="Overview">
          <dl class="fields">
            {trip.members.length > 0 && (
              <>
                <dt>{trip.members.length === 1 ? 'Member' : 'Members'}</dt>
                <dd>
                  {trip.members.map((member) => (
                    <>
                      <MemberLink id={member.id} member={isUnnamed(member) ? undefined : member} />{' '}
                    </>
                  ))}
                </dd>
              </>
            )}
            <Sum title="Quotes" items={made.filter(({ what }) => what === 'Quote')} />
            <Sum title="Bookings" items={made.filter(({ what }) => what !== 'Quote')} />
            <dt>Trip ID</dt>
            <dd>
              <CopyableId id={trip.trip_id} what="the trip's ID" />
            </dd>
          </dl>
          {(can('quotes', 'write') || can('bookings', 'write')) && (
            <p class="buttons">
              <a class="button" href={`#/hand-off?trip_id=${trip.trip_id}${memberOf(trip)}`}>
                Add to this trip
              </a>
            </p>
          )}
        </section>
        {made.length > 0 && <Table caption="Trip items" columns={columns} rows={made} keyOf={keyOf} />}
        {waiting.length > 0 && (
          <>
            <h2>Waiting or failed</h2>
            <Table caption="Waiting or failed hand-offs" columns={columns} rows={waiting} keyOf={keyOf} />
          </>
        )}
        {trip.truncated && (
          <p class="notice">
            This trip has more items than shown here. See all its{' '}
            <a href={`#/records/quotes?trip_id=${trip.trip_id}`}>quotes</a> and{' '}
            <a href={`#/records/bookings?trip_id=${trip.trip_id}`}>bookings</a>.
          </p>
        )}
      </div>
      <TripHistory items={items} />
    </div>
  );
}

/** A new item is for whom the others are. */
function memberOf({ members, quotes, bookings }: Trip): string {
  const ids = new Set([
    ...members.map(({ id }) => id),
    ...[...quotes, ...bookings].map((one) => one.member_id),
  ]);
  const [only] = ids;
  return ids.size === 1 && only ? `&member_id=${only}` : '';
}

function itemsOf(
  { quotes, bookings, reservations, handoffs }: Trip,
  factsOf: ReturnType<typeof useHandoffFacts>,
): Item[] {
  const tables = new Map((reservations as unknown as Listed[]).map((one) => [one.id, one]));
  const records = [
    ...quotes.map((one) => recordItem('Quote', 'quotes', one)),
    ...bookings.filter(({ id }) => !tables.has(id)).map((one) => recordItem('Booking', 'bookings', one)),
    ...[...tables].map(([id, one]) =>
      // What the table costs, and who offers it, stands in its booking.
      recordItem('Reservation', 'reservations', { ...bookings.find((booking) => booking.id === id), ...one }),
    ),
  ];
  const failureOf = ({ problem }: Trip['handoffs'][number]) =>
    problem ? withCrmName(problem.title) : undefined;
  const failures = new Map(handoffs.map((handoff) => [handoff.external_id, failureOf(handoff)]));
  const waiting = handoffs.map((handoff): Item => {
    const { external_id: id, type, status, request, accepted_at } = handoff;
    return {
      what: 'Hand-off',
      id,
      name: request?.result.name ?? (type === 'quote' ? 'Quote' : 'Booking'),
      source: request?.result.source ?? '',
      status: status === 'accepted' ? 'waiting' : status,
      failure: failureOf(handoff),
      address: `#/handoffs/${id}`,
      path: `/v1/handoffs/${id}`,
      facts: factsOf(handoff) ?? glance(null),
      createdAt: accepted_at,
    };
  });
  return [...records.map((one) => ({ ...one, failure: failures.get(one.id) })), ...waiting];
}

type Listed = {
  id: string;
  name?: string | null;
  source?: string | null;
  status?: string | null;
  created_at?: string | null;
};

function recordItem(what: Item['what'], collection: string, record: Listed): Item {
  const { id, name, source, status, created_at } = record;
  const address = collection === 'reservations' ? `#/reservations/${id}` : `#/records/${collection}/${id}`;
  return {
    ...{ what, id, address },
    name: name || 'Unnamed',
    source: source ?? '',
    status: status ?? '',
    path: `/v1/${collection}/${id}`,
    facts: glance(record),
    createdAt: created_at ?? null,
  };
}

const keyOf = ({ what, id }: Item) => `${what} ${id}`;

const columns: Column<Item>[] = [
  {
    title: 'Name',
    cell: ({ name, address, facts }) => (
      <>
        <a class="name" href={address}>
          {name}
        </a>
        <GlanceLine facts={{ ...facts, price: undefined }} />
      </>
    ),
  },
  { title: 'Type', cell: ({ what }) => what },
  { title: 'Supplier', cell: ({ source }) => source },
  { title: 'Amount', isNumber: true, cell: ({ facts: { price } }) => price && <Amount money={price} /> },
  {
    title: 'Status',
    cell: ({ what, id, status, failure }) => (
      <>
        <Badge>{status}</Badge>
        {failure !== undefined && what === 'Hand-off' && <p class="quiet">{failure}</p>}
        {failure !== undefined && what !== 'Hand-off' && (
          <p>
            <span class="badge bad">update failed</span> <a href={`#/handoffs/${id}`}>{failure}</a>
          </p>
        )}
      </>
    ),
  },
  { title: 'Created', cell: ({ createdAt }) => <Ago at={createdAt} /> },
];

/** Cancelled and rejected ones cost nothing. */
const free = ['cancelled', 'rejected', 'declined', 'failed'];

/** By currency; nothing where no amount is known. */
function Sum({ title, items }: { title: string; items: readonly Item[] }): VNode | null {
  const amounts = items
    .filter(({ status }) => !free.includes(status))
    .flatMap(({ facts: { price } }) => (price ? [price] : []));
  const totals = sums(amounts);
  if (totals.length === 0) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd>
        {totals.map((money, i) => (
          <>
            {i > 0 && ' + '}
            <Amount money={money} />
          </>
        ))}
        {amounts.length < items.length && <span class="quiet"> (not all have an amount)</span>}
      </dd>
    </>
  );
}

function madeAt({ createdAt }: Item): number {
  return createdAt === null ? 0 : Date.parse(createdAt);
}

/** Each is a request of its own, which the service answers from its database. */
const mostHistories = 30;

/** Newest first. */
function TripHistory({ items }: { items: readonly Item[] }): VNode | null {
  const newest = items.toSorted((a, b) => madeAt(b) - madeAt(a));
  const shown = newest.slice(0, mostHistories);
  const name = `histories ${shown.map(keyOf).join()}`;
  const histories = useLoad(name, (session) => readHistories(session, shown));
  const { data, problem } = histories;
  if (data?.length === 0) return null;
  return (
    <section class="panel history" aria-label="History">
      <h2>History</h2>
      <LoadProblem of={histories} what="Load the history again" />
      {data === undefined && problem === undefined && <p class="quiet">Loading the history…</p>}
      {data && <Timeline entries={data} />}
      {items.length > mostHistories && (
        <p class="hint">This history covers only the newest {mostHistories} items.</p>
      )}
    </section>
  );
}

async function readHistories({ send }: Session, items: readonly Item[]) {
  const read = async ({ path, name, what, address }: Item) => {
    // Where there is no history of one, that of the others is shown.
    const text = await send(`${path}/history`).then(
      (answer) => answer.text,
      () => '{"data":[]}',
    );
    const { data } = parseDigits(text) as { data: HistoryEntry[] };
    // The newest first, also of those of the same moment.
    return data.toReversed().map((entry) => ({ entry, what: what.toLowerCase(), of: { name, address } }));
  };
  const all = await Promise.all(items.map(read));
  return all.flat().sort((a, b) => Date.parse(b.entry.at) - Date.parse(a.entry.at));
}
