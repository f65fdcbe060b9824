import type { Booking, Member, Quote } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { GlanceLine } from '../shared/at-a-glance.tsx';
import { hintOf } from '../shared/faults.ts';
import { glance } from '../shared/guess.ts';
import { useKeptPages } from '../shared/kept.ts';
import { MemberLink } from '../shared/member-link.tsx';
import { MemberPicker } from '../shared/member-picker.tsx';
import { memberName, remember } from '../shared/members.ts';
import { Amount } from '../shared/money.tsx';
import { crmName } from '../shared/page-facts.ts';
import { Badge, type Column, Field, Id, List } from '../shared/parts.tsx';
import { useParameters } from '../shared/router.ts';
import { useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { faultOfId } from '../shared/uuid.ts';
import { Email } from '../shared/value.tsx';
import { keepAddress, titles } from './collections.ts';
import { type Matches, MatchLinks } from './matches.tsx';
import { type Collection, searchFor } from './search.ts';

type RecordRow = (Quote | Booking) & { member?: Pick<Member, 'id' | 'first_name' | 'last_name'> | null };

const names = ['search', 'trip_id', 'member_id', 'status'] as const;
type Filters = Record<(typeof names)[number], string>;

interface RecordListProps {
  collection: Collection;
  /** In the other lists. */
  matches: Matches;
}

/** A list with its search. What is searched for stands in the address. */
export function RecordList({ collection, matches }: RecordListProps): VNode {
  const [asked, ask] = useParameters(names);
  const session = useSession();
  useEffect(() => keepAddress(session, collection), [asked]);
  const Results = collection === 'members' ? Members : Records;
  return (
    <>
      <SearchForm collection={collection} asked={asked} ask={ask} />
      {Object.values(faultsOf(asked)).every((fault) => fault === undefined) && (
        <Results key={JSON.stringify(asked)} collection={collection} asked={asked} matches={matches} />
      )}
    </>
  );
}

function faultsOf({ trip_id, member_id }: Filters) {
  return { trip_id: faultOfId('trip', trip_id), member_id: faultOfId('member', member_id) };
}

interface SearchFormProps {
  collection: Collection;
  asked: Filters;
  ask: (filters: Filters) => void;
}

function SearchForm({ collection, asked, ask }: SearchFormProps): VNode {
  const [filters, setFilters] = useState(asked);
  // At once: what somebody types before the browser paints is not to be lost.
  useLayoutEffect(() => setFilters(asked), [asked]);
  const set = (name: keyof Filters) => (value: string) => setFilters({ ...filters, [name]: value });
  const submit = (event: Event) => {
    event.preventDefault();
    ask(Object.fromEntries(names.map((name) => [name, filters[name].trim()])) as Filters);
  };
  const isMembers = collection === 'members';
  const faults = faultsOf(asked);
  const hintFor = (name: keyof typeof faults) =>
    hintOf(filters[name] === asked[name] ? faults[name] : undefined);
  return (
    <form class="filters" role="search" onSubmit={submit}>
      <Field
        label="Search"
        type="search"
        value={filters.search}
        onInput={set('search')}
        maxLength={100}
        pattern="\s*\S.*\S\s*"
        title="At least two characters"
        placeholder={isMembers ? 'Name, e-mail, phone or ID' : 'Name, supplier, status or ID'}
      />
      {!isMembers && (
        <MemberField memberId={filters.member_id} onChange={set('member_id')} hint={hintFor('member_id')} />
      )}
      <button class="primary">Search</button>
      {!isMembers && (
        <details class="more" open={Boolean(asked.trip_id || asked.status)}>
          <summary>More filters</summary>
          <div class="filters">
            <Field
              label="Trip"
              value={filters.trip_id}
              onInput={set('trip_id')}
              placeholder="Trip ID"
              {...hintFor('trip_id')}
            />
            <Field label="Status" value={filters.status} onInput={set('status')} />
          </div>
        </details>
      )}
    </form>
  );
}

interface MemberFieldProps {
  memberId: string;
  onChange: (id: string) => void;
  hint: ReturnType<typeof hintOf>;
}

function MemberField({ memberId, onChange, hint }: MemberFieldProps): VNode {
  const { can } = useSession();
  if (can('members', 'read')) return <MemberPicker memberId={memberId} onChange={onChange} />;
  return (
    <Field
      label="Member"
      value={memberId}
      onInput={onChange}
      placeholder="External ID of the member"
      {...hint}
    />
  );
}

interface ResultsProps {
  collection: Collection;
  asked: Filters;
  matches: Matches;
}

/** The pages that a search finds; those that were shown before somebody followed a link and came back. */
function useFound<Row>(collection: Collection, { search, ...filters }: Filters) {
  const session = useSession();
  const name = JSON.stringify([collection, search, filters]);
  const pages = useKeptPages<Row>(name, (chosen) => searchFor<Row>(collection, search, filters, chosen));
  // The way back from a record leads to as many.
  useEffect(() => keepAddress(session, collection), [pages.kept?.pages.length]);
  return pages;
}

function Records({ collection, asked, matches }: ResultsProps): VNode {
  const pages = useFound<RecordRow>(collection, asked);
  const columns: Column<RecordRow>[] = [
    {
      title: 'Name',
      cell: (row) => (
        <>
          <a class="name" href={`#/records/${collection}/${row.id}`}>
            {row.name || 'Unnamed'}
          </a>
          <GlanceLine facts={{ ...glance(row), price: undefined }} />
        </>
      ),
    },
    {
      title: 'Member',
      cell: ({ member_id: id, member }) => <MemberLink id={id} member={member ?? undefined} />,
    },
    {
      title: 'Amount',
      isNumber: true,
      cell: (row) => <AmountOf row={row} />,
    },
    { title: 'Supplier', cell: ({ source }) => source },
    { title: 'Status', cell: ({ status }) => <Badge>{status ?? ''}</Badge> },
    {
      title: 'Trip',
      cell: ({ trip_id: trip }) =>
        trip && (
          <a class="quiet-link" href={`#/trips/${trip}`} title="Show the trip">
            <Id>{trip}</Id>
          </a>
        ),
    },
    { title: 'Created', cell: ({ created_at }) => <Ago at={created_at} /> },
  ];
  return (
    <List
      caption={titles[collection]}
      pages={pages}
      columns={columns}
      keyOf={({ id }: RecordRow) => id}
      empty={
        isFiltered(asked) ? (
          <NoMatch collection={collection} asked={asked} matches={matches} />
        ) : (
          <NoneYet collection={collection} />
        )
      }
    />
  );
}

function AmountOf({ row }: { row: RecordRow }): VNode | null {
  const { price } = glance(row);
  return price ? <Amount money={price} /> : null;
}

function Members({ asked, matches }: ResultsProps): VNode {
  const session = useSession();
  const pages = useFound<Member>('members', asked);
  useEffect(() => remember(session, pages.data ?? []), [pages.data?.length]);
  const columns: Column<Member>[] = [
    {
      title: 'Name',
      cell: (member) => (
        <a class="name" href={`#/records/members/${member.id}`}>
          {memberName(member)}
        </a>
      ),
    },
    { title: 'E-mail', cell: ({ email }) => email && <Email address={email} /> },
    { title: 'Phone', cell: ({ phone }) => phone },
    { title: 'Changed', cell: ({ updated_at }) => <Ago at={updated_at} /> },
  ];
  return (
    <List
      caption="Members"
      pages={pages}
      columns={columns}
      keyOf={({ id }: Member) => id}
      empty={
        isFiltered(asked) ? (
          <NoMatch collection="members" asked={asked} matches={matches} />
        ) : (
          <>
            <p>{crmName} has no members with an External ID.</p>
            <p>Members appear here once {crmName} assigns one.</p>
          </>
        )
      }
    />
  );
}

function isFiltered(asked: Filters): boolean {
  return Object.values(asked).some(Boolean);
}

function NoMatch({ collection, asked, matches }: ResultsProps): VNode {
  return (
    <>
      <p>{asked.search ? `No ${collection} match “${asked.search}”.` : 'Nothing matches.'}</p>
      <MatchLinks collection={collection} search={asked.search} matches={matches} />
      <p>
        <a href={`#/records/${collection}`}>Show all {collection}</a>
      </p>
    </>
  );
}

function NoneYet({ collection }: { collection: Collection }): VNode {
  const { can } = useSession();
  return (
    <>
      <p>No {collection} yet.</p>
      {can(collection, 'write') && (
        <p>
          <a href="#/hand-off">Hand off a search result</a>
        </p>
      )}
    </>
  );
}
