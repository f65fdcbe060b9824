import { type RawBuilder, sql } from 'kysely';
import { monotonicMs } from '../../platform/base/chance.ts';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks, containing, interval, preparedAs } from '../../platform/store/statements.ts';
import type { ChangePosition, IdRange, MissingId } from '../../records/changes.ts';
import { member } from '../../records/members.ts';
import { booking, quote } from '../../records/quotes-and-bookings.ts';
import type { ListQuery } from '../../records/records.ts';
import { folded } from '../../records/search.ts';
import { lastPollBegan, wereChangesRead } from '../events/reader-table.ts';
import {
  added,
  type Clock,
  clockMs,
  columnNames,
  databaseTime,
  displaced,
  isClaimed,
  isWrittenSince,
  keptThrough,
  lastCompletePoll,
  overlaps,
  replaced,
  staleIds,
  stillRightAt,
} from './copied-columns.ts';
import { type CopiedRow, staleWhereShared } from './copied-row.ts';

const clearedAtOnce = 5000;
const erasedAtOnce = 1000;
/** Up to this many records are counted; of more the database's own estimate is used. */
const countedExactly = 100_000;
const nowMs = sql.raw('extract(epoch from now())::float8 * 1000');

export interface FoundRow {
  external_id: string;
  native_id: string;
  content: string;
  is_stale: boolean;
}

export interface LookedUpRow extends FoundRow {
  /** How many seconds ago it was certainly so, every acknowledged write of the service in it; null: no such time is known. */
  right_ago: number | null;
}

/** `age`: seconds since the poll began that the rows are from. */
export interface Found<Row = FoundRow> {
  age: number;
  rows: Row[];
}

interface CopyKey {
  resource: string;
  externalId: string;
}

export interface LookupKey extends CopyKey {
  /** Only where this consumer made it: a foreign record costs no more time than none. */
  madeBy?: string | undefined;
}

export interface CopyList
  extends Pick<ListQuery, 'filters' | 'search' | 'updatedSince' | 'after' | 'limit' | 'maxBytes'> {
  resource: string;
  tokens?: readonly string[];
}

export interface FoundList extends Found {
  /** Further records of the page were left out for their bytes. */
  isCut: boolean;
  hasStale: boolean;
  /** How many seconds ago all rows of the resource were right: see `right_ago`. */
  rightAgo: number | null;
  hasOwners: boolean;
}

export type FillPositions = Record<string, ChangePosition>;

export interface StaleRecord extends Pick<FoundRow, 'native_id' | 'external_id'> {
  resource: string;
  now: string;
}

export class CopyTable {
  readonly #database: Database;
  fields: string;
  #clock: Clock | undefined;

  constructor(database: Database, fields: string) {
    this.#database = database;
    this.fields = fields;
  }

  /**
   * Looks records up, in the order of the keys; undefined where the copy of the resource is not complete, or has other
   * fields.
   */
  async find(keys: readonly LookupKey[]): Promise<(Found<LookedUpRow> | undefined)[]> {
    const resources = [...new Set(keys.map(({ resource }) => resource))];
    const { rows } = await sql<LookedUpRow & { resource: string; age: number; position: number | null }>`
      ${preparedAs('copy-find')}
      select s.resource, s.age, r.position, r.external_id, r.native_id, r.is_stale,
        case when r.is_stale then ${secondsSince(sql`r.right_at`)} else s.age end as right_ago,
        case when r.is_stale and r.right_at = '-infinity' then '' else r.content end as content
      from ${this.#usable(resources)} s left join (
        select k.position::integer, r.resource, r.external_id, r.native_id, r.content, r.is_stale, r.right_at
        from unnest(${keys.map(({ resource }) => resource)}::text[],
          ${keys.map(({ externalId }) => externalId)}::text[],
          ${keys.map(({ madeBy }) => (madeBy === undefined ? null : folded(madeBy)))}::text[]
        ) with ordinality k (resource, external_id, made_by, position)
        join copied_records r on r.resource = k.resource and r.external_id = k.external_id
        where r.is_stale or (not r.is_deleted and (k.made_by is null or r.consumer_id = k.made_by))
      ) r on r.resource = s.resource`.execute(this.#database.sql);
    const ages = new Map(rows.map(({ resource, age }) => [resource, age]));
    const found = keys.map(({ resource }) => {
      const age = ages.get(resource);
      return age === undefined ? undefined : { age, rows: [] as LookedUpRow[] };
    });
    for (const { position, resource: _, age: __, ...row } of rows)
      if (position !== null) found[position - 1]?.rows.push(row);
    return found;
  }

  /** A page and one record more, where there are more; undefined as in `find`. */
  async list(query: CopyList): Promise<FoundList | undefined> {
    const { resource, updatedSince, limit, maxBytes } = query;
    const order =
      updatedSince === undefined
        ? sql.raw('created_at desc, external_id desc')
        : sql.raw('updated_at, external_id');
    // Stored records are longer than shown ones, by less than this.
    const mostBytes = 2 * maxBytes + limit * 4096;
    // By the smallest value of its index: to look for any row, the planner may read the whole table.
    const hasStale = sql`(select min(written_at) from copied_records where resource = ${resource} and is_stale)
      is not null`;
    const firstRight = sql`(select min(right_at) from copied_records where resource = ${resource} and is_stale)`;
    const rightAgo = secondsSince(sql`least(s.kept_through, ${firstRight})`);
    const hasOwners = sql`(select min(consumer_id) from copied_records where resource = ${resource} and not is_deleted)
      is not null`;
    const statement = sql<
      FoundRow & {
        age: number;
        counted: number | null;
        has_stale: boolean;
        right_ago: number | null;
        has_owners: boolean;
      }
    >`
      select s.age, ${hasStale} as has_stale, ${rightAgo} as right_ago, ${hasOwners} as has_owners,
        r.counted, r.external_id, r.native_id, r.content, false as is_stale
      from ${this.#usable([resource])} s left join (
        select * from (
          select r.*, (count(*) over ())::integer as counted,
            sum(octet_length(content)) over (order by ${order}) - octet_length(content) as bytes_before
          from (
            select created_at, updated_at, external_id, native_id, content from copied_records
            where ${conditions(query)} order by ${order} limit ${limit + 1}
          ) r
        ) r where bytes_before <= ${mostBytes}
      ) r on true order by ${order}`;
    const { rows } = await statement.execute(this.#database.sql);
    const [first] = rows;
    if (first === undefined) return undefined;
    return {
      age: first.age,
      isCut: (first.counted ?? 0) > rows.length,
      hasStale: first.has_stale,
      rightAgo: first.right_ago,
      hasOwners: first.has_owners,
      rows: rows.filter(({ native_id }) => native_id !== null),
    };
  }

  /** Each of these resources that serves, with the seconds since the poll began that all its rows are from. */
  #usable(resources: readonly string[]): RawBuilder<unknown> {
    const kept = keptThrough('u.name');
    return sql`(
      select u.name as resource, extract(epoch from now() - ${kept})::float8 as age, ${kept} as kept_through
      from copy_state, unnest(${resources}::text[]) u (name)
      where places::json -> u.name is null and ${kept} is not null and fields = ${this.fields}
    )`;
  }

  /** Seconds, by the oldest of these resources; null where one of them does not serve. */
  age(resources: readonly string[]): RawBuilder<number | null> {
    return sql`(select case when count(*) = ${resources.length}::integer then max(age) end
      from ${this.#usable(resources)} s)`;
  }

  /**
   * Notes what writes of the service left behind. Where another write was noted, or the reader stored the record, since it
   * was asked for, either state may be the newer one: the one that was changed later is. Within one second of the CRM's clock
   * that is not known, nor of a deletion, and the row is stale.
   */
  async write(rows: readonly CopiedRow[], queries = this.#database.sql): Promise<void> {
    const clock = await this.#readClock(queries);
    const isNewer = sql`(excluded.is_stale or excluded.is_deleted or r.is_stale or not ${overlaps}
      or r.updated_at <= excluded.updated_at)`;
    const isStale = sql`(excluded.is_stale or not ${isNewer} or (${overlaps} and (r.is_stale
      or r.is_deleted <> excluded.is_deleted
      or (not excluded.is_deleted and r.updated_at >= excluded.updated_at and r.content <> excluded.content))))`;
    try {
      const { rows: noted } = await sql<{ at: number }>`
        ${preparedAs('copy-write')}
        with ${added(staleWhereShared(rows), clock)}, ${displaced}, stored as (
          insert into copied_records as r (${columnNames}, written_at, seen_at, right_at)
          select ${columnNames}, now(), since,
            case when is_stale and not lacks_write then ${lastCompletePoll} else '-infinity' end
          from added order by resource, native_id
          on conflict (resource, native_id) do update set ${replaced(isStale)}, written_at = excluded.written_at
          where ${isNewer} or ${isClaimed}
          returning resource, native_id, external_id, is_stale
        ), ${staleIds}
        select ${nowMs} as at`.execute(queries);
      const [first] = noted;
      if (first !== undefined) this.#clock = { at: first.at, by: monotonicMs() };
    } catch (error) {
      // Another server may take its place.
      this.#clock = undefined;
      throw error;
    }
  }

  /** Reads the database's clock before the statement: that one may arrive late, so its own time cannot be used. */
  async #readClock(queries: Database['sql']): Promise<Clock> {
    if (this.#clock === undefined || monotonicMs() - this.#clock.by > clockMs) {
      const { rows } = await sql<{ at: number }>`select ${nowMs} as at`.execute(queries);
      this.#clock = { at: rows[0]?.at ?? 0, by: monotonicMs() };
    }
    return this.#clock;
  }

  /**
   * Stores what the reader has read since its poll began. Over what was noted since only where the CRM says that it was
   * changed later: a write that is answered late may be older than the page. Where that is not known, the row is stale.
   */
  async keep(transaction: Database['sql'], rows: readonly CopiedRow[]): Promise<void> {
    const isNewer = sql`(not ${isWrittenSince} or (not r.is_stale and not r.is_deleted and (excluded.is_deleted
      or r.updated_at < excluded.updated_at
      or (r.updated_at = excluded.updated_at and r.content <> excluded.content))))`;
    const isStale = sql`(excluded.is_stale or not ${isNewer}
      or (${isWrittenSince} and (excluded.is_deleted or r.updated_at = excluded.updated_at)))`;
    await sql`
      with ${added(staleWhereShared(rows))}, ${displaced}, stored as (
        insert into copied_records as r (${columnNames}, seen_at)
        select ${columnNames}, now() from added order by resource, native_id
        on conflict (resource, native_id) do update set ${replaced(isStale)}, seen_at = excluded.seen_at
        where ${isNewer} or ${isClaimed}
          or (r.is_stale and excluded.external_id not in ('', r.external_id))
          -- Deleted, and perhaps restored since, or read before that.
          or (r.is_deleted and not excluded.is_deleted)
        returning resource, native_id, external_id, is_stale
      ), ${staleIds}
      select`.execute(transaction);
  }

  async follow(transaction: Database['sql'], members: readonly CopiedRow[]): Promise<void> {
    if (members.length === 0) return;
    await sql`
      with named as (
        select r.resource as kind, r.native_id as id from copied_records r
        join unnest(${members.map(({ nativeId }) => nativeId)}::text[],
          ${members.map(({ externalId, isDeleted }) => (isDeleted || externalId === '' ? null : externalId))}::text[]
        ) m (native_id, external_id) on r.member_native_id = m.native_id
        where not r.is_deleted and r.member_id is distinct from m.external_id
        order by r.resource, r.native_id for update of r
      )
      update copied_records r set is_stale = true, right_at = ${stillRightAt}, seen_at = now() from named
      where r.resource = named.kind and r.native_id = named.id`.execute(transaction);
  }

  async staleRecords(resources: readonly string[], limit: number): Promise<StaleRecord[]> {
    const { rows } = await sql<StaleRecord>`
      select resource, native_id, external_id, now()::text as now from copied_records
      where is_stale and resource = any(${resources}::text[]) order by written_at limit ${limit}`.execute(
      this.#database.bulk,
    );
    return rows;
  }

  async markStale({ resource, externalId }: CopyKey): Promise<void> {
    await sql`
      update copied_records set is_stale = true, right_at = ${stillRightAt}, written_at = now()
      where resource = ${resource} and external_id = ${externalId}`.execute(this.#database.sql);
  }

  /** An acknowledged write may be missing from a record that is stale. */
  async doubt({ resource, externalId }: CopyKey): Promise<void> {
    await sql`
      update copied_records set right_at = '-infinity'
      where resource = ${resource} and external_id = ${externalId} and is_stale and right_at > '-infinity'`.execute(
      this.#database.sql,
    );
  }

  /**
   * The CRM has no record with this External ID: requests for it go to the CRM until it is read again. No list shows it any
   * more, unless it was stored since it was asked for, at \`since\` by \`monotonicMs()\`. \`isForWrite\`: that it is gone may
   * be acknowledged.
   */
  async missing(id: MissingId, since: number, isForWrite: boolean): Promise<void> {
    const { resource, externalId, madeBy } = id;
    const queries = this.#database.sql;
    const isNewer = sql`(greatest(written_at, seen_at)
      >= ${databaseTime(await this.#readClock(queries), since)}::timestamptz)`;
    await sql`
      update copied_records set is_stale = true, written_at = now(),
        content = case when ${isNewer} then content else '' end,
        right_at = case when ${isForWrite} and ${isNewer} then '-infinity' else ${stillRightAt} end
      where resource = ${resource} and external_id = ${externalId} and not is_deleted
        and (not is_stale or content <> '')
        and (${madeBy}::text is null or consumer_id = ${madeBy && folded(madeBy)})`.execute(queries);
  }

  async compare(
    transaction: Database['sql'],
    { resource, after, to }: IdRange,
    ids: readonly string[],
  ): Promise<void> {
    await sql`
      update copied_records set is_stale = true, right_at = ${stillRightAt}, written_at = now()
      where resource = ${resource.name} and not is_deleted and not is_stale
        and native_id collate "C" > ${after} and (${to ?? null}::text is null or native_id collate "C" <= ${to ?? null})
        and native_id not in (select unnest(${ids}::text[]))`.execute(transaction);
  }

  async state(): Promise<
    { fields: string; fence: string; positions: FillPositions | undefined } | undefined
  > {
    const { rows } = await sql<{ fields: string; fence: string; places: string | null }>`
      select fields, fence::text, places from copy_state`.execute(this.#database.sql);
    const [row] = rows;
    if (row === undefined) return undefined;
    const { fields, fence, places } = row;
    return { fields, fence, positions: places === null ? undefined : (JSON.parse(places) as FillPositions) };
  }

  /**
   * Empties the copy, to be filled from these positions on. Where the reader has read nothing yet, its own first poll reads
   * everything, and fills it.
   */
  async reset(transaction: Database['sql'], fence: string, positions: FillPositions): Promise<void> {
    await sql`truncate copied_records`.execute(transaction);
    await sql`
      insert into copy_state as s (fields, fence, places)
      select ${this.fields}, ${fence}::bigint,
        case when ${wereChangesRead} then ${JSON.stringify(positions)} end
      on conflict (only_row) do update set fields = excluded.fields, fence = excluded.fence, places = excluded.places,
        kept_through = null, kept_by_resource = null`.execute(transaction);
  }

  async move(transaction: Database['sql'], positions: FillPositions): Promise<void> {
    const left = Object.keys(positions).length === 0 ? null : JSON.stringify(positions);
    await sql`update copy_state set places = ${left}`.execute(transaction);
  }

  /** `isWhole`: these resources are all that the copy has. */
  async complete(
    transaction: Database['sql'],
    fence: string,
    { read, isWhole }: { read: readonly string[]; isWhole: boolean },
  ): Promise<void> {
    await sql`
      update copy_state set kept_through = case when ${isWhole} then ${lastPollBegan} else kept_through end,
        kept_by_resource = coalesce(kept_by_resource, '{}')
          || (select jsonb_object_agg(name, ${lastPollBegan}) from unnest(${read}::text[]) name)
      where fence = ${fence}::bigint`.execute(transaction);
  }

  async drop(): Promise<void> {
    await this.#database.bulk.transaction().execute(async (transaction) => {
      // In the order of the fill, which may be storing a page.
      await sql`truncate copied_records`.execute(transaction);
      await sql`delete from copy_state`.execute(transaction);
    });
  }

  async facts(resources: readonly string[]): Promise<{
    /** Null where one of these resources can't be served. */
    age: number | null;
    isFilled: boolean;
    records: number;
  }> {
    const { rows } = await sql<{ age: number | null; is_filled: boolean; records: string }>`
      select ${this.age(resources)} as age,
        exists (select from copy_state where not exists (
          select from unnest(${resources}::text[]) name where places::json -> name is not null)) as is_filled,
        (case when reltuples > ${countedExactly} then reltuples::bigint
          else (select count(*) from (select from copied_records where not is_deleted limit ${countedExactly}) counted) end)::text as records
      from pg_class where oid = 'copied_records'::regclass`.execute(this.#database.sql);
    const [{ age, is_filled, records } = { age: null, is_filled: false, records: '0' }] = rows;
    return { age, isFilled: is_filled, records: Number(records) };
  }

  eraseMember(memberId: string): Promise<number> {
    const statement = (limit: number) => sql`
      update copied_records set content = '', email = null, search_text = null, filters = null, is_stale = true,
        right_at = '-infinity', written_at = now()
      where (resource, native_id) in (
        select resource, native_id from copied_records
        where ((resource = ${member.name} and external_id = ${memberId})
            or (resource in (${quote.name}, ${booking.name}) and member_id = ${memberId} and not is_deleted))
          and content <> ''
        limit ${limit})`;
    return changeInChunks(this.#database.bulk, erasedAtOnce, statement);
  }

  /** Forgets deleted records once no read that began before the deletion can be in progress. */
  clearDeleted(signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from copied_records where (resource, native_id) in (
        select resource, native_id from copied_records
        where is_deleted and not is_stale and greatest(written_at, seen_at) < now() - ${interval(86_400)}
        limit ${limit})`;
    return changeInChunks(this.#database.bulk, clearedAtOnce, statement, signal);
  }
}

/** Null for -infinity. */
function secondsSince(moment: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`extract(epoch from now() - nullif(${moment}, '-infinity'))::float8`;
}

function conditions({
  resource,
  filters,
  tokens,
  search,
  updatedSince,
  after,
}: CopyList): RawBuilder<unknown> {
  // A stale row without content is known to be no record any more, or none yet.
  const isThere = sql`resource = ${resource} and not is_deleted and (not is_stale or content <> '')`;
  const all: RawBuilder<unknown>[] = [isThere];
  if (tokens && tokens.length > 0) all.push(sql`string_to_array(filters, ' ') @> ${tokens}::text[]`);
  for (const [name, value] of Object.entries(filters))
    all.push(value === null ? sql`${sql.ref(name)} is null` : sql`${sql.ref(name)} = ${folded(value)}`);
  if (search !== undefined) all.push(sql`search_text like ${containing(folded(search))}`);
  if (updatedSince !== undefined) all.push(sql`updated_at >= ${updatedSince}::timestamptz`);
  if (after !== undefined) {
    const position = sql`(${after.at}::timestamptz, ${after.id}::text collate "C")`;
    const isNewestFirst = updatedSince === undefined;
    all.push(
      isNewestFirst
        ? sql`(created_at, external_id) < ${position}`
        : sql`(updated_at, external_id) > ${position}`,
    );
  }
  return sql.join(all, sql` and `);
}
