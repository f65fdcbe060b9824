import { type RawBuilder, sql } from 'kysely';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { modeOf } from '../../platform/base/call.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import {
  changeInChunks,
  changeInSearch,
  interval,
  type SearchedChunk,
  searchedAtOnce,
} from '../../platform/store/statements.ts';
import { Turns } from '../../platform/store/turns.ts';
import { type EventVisibility, eventVisibilityOf, isVisibleTo, shownTo } from './event-visibility.ts';

/** Events that one page searches at most, so that a filter that few of them pass does not search all. */
const readAtOnce = 20_000;
/** Searches at once, of one consumer one: each holds a connection to the database, and other requests need these too. */
const searchesAtOnce = 4;
/** Events that one statement deletes: each may hold 256 KiB. */
const deletedAtOnce = 500;

export interface StoredEvent {
  sequence: number;
  id: string;
  type: string;
  resource_type: string;
  resource_id: string;
  occurred_at: Date;
  permission_resource: string;
  /** JSON text. */
  data: string;
  data_omitted: boolean;
}

/** JSON text by External ID; undefined for those that come after `maxBytes` of others. */
export type Contents = ReadonlyMap<string, string | undefined>;

export const feedOrders = ['oldest_first', 'newest_first'] as const;

interface FeedQuery {
  order?: (typeof feedOrders)[number] | undefined;
  after?: number | undefined;
  /** Undefined for an operator, who sees every event. */
  visibility?: EventVisibility;
  types?: readonly string[] | undefined;
  resourceId?: string | undefined;
  /** Milliseconds since 1970. */
  since?: number | undefined;
  limit: number;
  /** Bytes of data after which no further event is read. */
  maxBytes: number;
}

export interface FeedPage {
  events: StoredEvent[];
  searchedTo: number;
  isCut: boolean;
}

export interface ListedEvent {
  id: string;
  type: string;
  resource_id: string;
  consumer_id: string | null;
  occurred_at: Date;
  recorded_at: Date;
}

export class EventFeed {
  readonly #database: Database;
  readonly #searches = new Turns(searchesAtOnce, 'searches of the events');

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * A page of the feed; undefined where events behind `after` were deleted already, or where this is not the database
   * that the place is from. Throws `store_unavailable`.
   */
  async read(query: FeedQuery): Promise<FeedPage | undefined> {
    const { after, limit, maxBytes, order = 'oldest_first' } = query;
    const { start, isBehind, isUpTo, direction, furthest } = walks[order];
    const statement = sql<
      Omit<StoredEvent, 'sequence'> & Searched & { last_sequence: string; deleted_through: string }
    >`
      with searched as materialized (
        select sequence from events where sequence ${isBehind} ${after ?? start} order by sequence ${direction} limit ${readAtOnce}
      ), upto as (
        select ${furthest}(sequence) as searched_to, count(*)::integer as searched from searched
      )
      select last_sequence::text, deleted_through::text, searched_to::text, searched,
        found.sequence::text, id, type, resource_type, resource_id, permission_resource, occurred_at, data, data_omitted, is_followed
      from event_counter cross join upto left join lateral (
        select * from (
          select e.*, sum(octet_length(data)) over nth - octet_length(data) as bytes_before,
            lead(true, 1, false) over nth as is_followed
          from (
            select * from events e
            where e.sequence ${isBehind} ${after ?? start} and e.sequence ${isUpTo} upto.searched_to and ${conditions(query)}
            order by e.sequence ${direction} limit ${limit + 1}
          ) as e window nth as (order by sequence ${direction})
        ) as e where bytes_before <= ${maxBytes}
      ) as found on true
      order by found.sequence ${direction}`;
    const search = () => statement.execute(this.#database.sql);
    const { rows } = await orUnavailable(
      () => this.#searches.run(query.visibility?.consumer_id ?? '', search),
      { keeps: 'keeps the events' },
    );
    const [first] = rows;
    if (first === undefined) throw new Error('the table event_counter is empty');
    // One statement sees the counter and the events as they are at one moment: there are none behind the counter.
    const last = Number(first.last_sequence);
    if (after !== undefined && (after > last || hasGap(query, Number(first.deleted_through))))
      return undefined;
    const events = rows.flatMap((row) =>
      row.sequence === null ? [] : [{ ...row, sequence: Number(row.sequence) }],
    );
    const cutAt = cutOf(rows);
    return { events, searchedTo: cutAt ?? last, isCut: cutAt !== undefined };
  }

  /**
   * Records of quotes and bookings as their newest event has them, of those that the consumer may see now; `ids` come first to last
   * while their data fit in `maxBytes`. Throws `store_unavailable`.
   */
  async newestRecords(ids: readonly string[], consumer: Consumer, maxBytes: number): Promise<Contents> {
    const visibility = eventVisibilityOf(consumer);
    const statement = sql<Omit<StoredEvent, 'data'> & { data: string | null }>`
      select resource_type, resource_id, permission_resource, data_omitted,
        case when bytes_before <= ${maxBytes} then data end as data
      from (
        select e.*, sum(octet_length(data)) over (order by nth) - octet_length(data) as bytes_before
        from unnest(${ids}::text[]) with ordinality as wanted (id, nth) cross join lateral (
          select * from events where resource_id = wanted.id and resource_type in ('quote', 'booking')
          order by sequence desc limit 1
        ) as e
        where not data_omitted and type not like '%.deleted' and ${isVisibleTo({ ...visibility, fields: {} })}
      ) as e`;
    const { rows } = await orUnavailable(() => statement.execute(this.#database.sql), {
      keeps: 'keeps the events',
    });
    return new Map(
      rows.map(({ data, ...event }) => [
        event.resource_id,
        data === null ? undefined : shownTo(visibility, { ...event, data }).data,
      ]),
    );
  }

  /** Newest first. Throws what the database does. */
  async latest(
    limit: number,
    { type, resourceId }: { type?: string | undefined; resourceId?: string | undefined },
  ): Promise<ListedEvent[]> {
    const { rows } = await sql<ListedEvent>`
      select id, type, resource_id, consumer_id, occurred_at, recorded_at from events
      where (${type ?? null}::text is null or type = ${type ?? null}::text)
        and (${resourceId ?? null}::text is null or resource_id = ${resourceId ?? null}::text)
      order by sequence desc limit ${limit}`.execute(this.#database.bulk);
    return rows;
  }

  /**
   * Leaves out the data of events about a member and of all that name it; returns how many had any. Throws what the
   * database does.
   */
  eraseMember(memberId: string): Promise<number> {
    return changeInSearch(
      this.#database.bulk,
      '0',
      (after) => sql<SearchedChunk<string>>`
        with chunk as (
          select sequence from events where sequence > ${after}::bigint order by sequence limit ${searchedAtOnce}
        ), erased as (
          update events e set data = json_build_object('id', resource_id)::text, data_omitted = true from chunk
          where e.sequence = chunk.sequence and not data_omitted and type not like '%.deleted'
            and position(${memberId} in lower(data)) > 0
          returning 1
        )
        select (select max(sequence)::text from chunk) as last, (select count(*)::integer from erased) as changed`,
    );
  }

  /** Deletes events that were recorded this many days ago, oldest first; returns how many. Throws what the database does. */
  deleteOlderThan(days: number, signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      with old as (
        select sequence from (
          select sequence, recorded_at from events order by sequence limit ${limit}
        ) as oldest where recorded_at < now() - ${interval(days * 86_400)}
      ), noted as (
        update event_counter set deleted_through = greatest(deleted_through, (select max(sequence) from old))
        where exists (select from old)
      )
      delete from events where sequence in (select sequence from old)`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

const walks = {
  oldest_first: {
    start: 0,
    isBehind: sql.raw('>'),
    isUpTo: sql.raw('<='),
    direction: sql.raw('asc'),
    furthest: sql.raw('max'),
  },
  newest_first: {
    start: Number.MAX_SAFE_INTEGER,
    isBehind: sql.raw('<'),
    isUpTo: sql.raw('>='),
    direction: sql.raw('desc'),
    furthest: sql.raw('min'),
  },
};

interface Searched {
  sequence: string | null;
  searched_to: string | null;
  searched: number;
  is_followed: boolean | null;
}

/** Up to where a page of this many bytes or searched events goes; undefined where it goes to the end. */
function cutOf(rows: readonly Searched[]): number | undefined {
  const row = rows.at(-1);
  // Without hidden fields, all of these may fit on the page.
  if (row?.is_followed) return Number(row.sequence);
  return row?.searched === readAtOnce ? Number(row.searched_to) : undefined;
}

function hasGap({ after = 0, order }: FeedQuery, deletedThrough: number): boolean {
  return order !== 'newest_first' && after < deletedThrough;
}

function conditions({ visibility, types, resourceId, since }: FeedQuery): RawBuilder<unknown> {
  const all: RawBuilder<unknown>[] = [sql`true`];
  if (visibility !== undefined) all.push(isVisibleTo(visibility));
  if (types !== undefined) all.push(sql`type = any(${types}::text[])`);
  if (resourceId !== undefined) all.push(sql`resource_id = ${resourceId}`);
  if (since !== undefined) all.push(sql`occurred_at >= ${new Date(since)}::timestamptz`);
  return sql.join(all, sql` and `);
}

export function writeEvent(
  event: Omit<StoredEvent, 'sequence' | 'permission_resource'>,
  consumerId: string,
  rest = '',
): string {
  const { id, type, occurred_at, resource_type, resource_id, data, data_omitted } = event;
  const head = {
    id,
    type,
    occurred_at: occurred_at.toISOString(),
    // A test consumer sees no others.
    ...(modeOf(consumerId) === 'test' && { mode: 'test' }),
    resource: { type: resource_type, id: resource_id },
  };
  return `${JSON.stringify(head).slice(0, -1)},"data":${data}${data_omitted ? ',"data_omitted":true' : ''}${rest}}`;
}
