import { type RawBuilder, sql } from 'kysely';
import { folded } from '../../records/search.ts';
import { lastPollBegan } from '../events/reader-table.ts';
import { type CopiedRow, contentOf, filterColumns } from './copied-row.ts';

const columns = [
  ...['resource', 'native_id', 'external_id', 'created_at', 'updated_at', ...filterColumns],
  ...['search_text', 'filters', 'member_native_id', 'content', 'is_deleted', 'is_stale'],
];
export const columnNames = sql.raw(columns.join(', '));
export const overlaps = sql.raw('(greatest(r.written_at, r.seen_at) >= excluded.seen_at)');
export const isWrittenSince = sql`(r.written_at >= ${lastPollBegan})`;
/** The database's clock was at `at`, or further, when `monotonicMs()` was `by`; both in milliseconds. */
export interface Clock {
  at: number;
  by: number;
}

const kept = "excluded.right_at > '-infinity'";
const isKept = sql.raw(kept);

/** In milliseconds: how long a comparison of the two clocks is used. */
export const clockMs = 60_000;

export function databaseTime({ at, by }: Clock, since: CopiedRow['since']): string {
  return typeof since === 'string' ? since : new Date(Math.floor(at + since - by)).toISOString();
}

export function keptThrough(resource: string): RawBuilder<unknown> {
  return sql.raw(`(kept_by_resource ->> ${resource})::timestamptz`);
}

/** Needs a statement whose rows have a `resource`. */
export const lastCompletePoll = sql`coalesce((select ${keptThrough('resource')} from copy_state), '-infinity')`;
export const stillRightAt = sql`case when is_stale then right_at else ${lastCompletePoll} end`;

/**
 * Assignments that replace a row. One that is stale and lacks no acknowledged write keeps what was known of it. Unchanged content is not rewritten; a missing External ID does not replace a known one. A
 * stale row keeps its External ID; `staleIds` marks the other one stale too.
 */
export function replaced(isStale: RawBuilder<unknown>): RawBuilder<unknown> {
  const known = columns
    .filter((name) => !['resource', 'native_id', 'external_id', 'is_stale'].includes(name))
    .map((name) => `${name} = ${replacement(name)}`);
  return sql`${sql.raw(known.join(', '))}, is_stale = ${isStale}, right_at = case
    when ${isKept} and r.is_stale then r.right_at else excluded.right_at end, external_id = case
    when r.external_id = '' or (excluded.external_id <> '' and not ${isStale}) then excluded.external_id
    else r.external_id end`;
}

export const isClaimed = sql.raw(`(not r.is_deleted and not r.is_stale and r.external_id <> '' and exists (
  select from added b where b.resource = r.resource and b.external_id = r.external_id
    and b.native_id <> r.native_id and not b.is_deleted))`);

/** Marks the second External ID of a stale record as stale, so that requests for it go to the CRM. */
export const staleIds = sql.raw(`staleIds as (
  insert into copied_records as r
    (resource, native_id, external_id, created_at, updated_at, content, is_stale, written_at)
  select distinct a.resource, '?' || a.external_id, a.external_id, to_timestamp(0), to_timestamp(0), '', true, now()
  from added a join stored s on s.resource = a.resource and s.native_id = a.native_id
  where s.is_stale and a.external_id not in ('', s.external_id)
    and not exists (select from added b where b.resource = a.resource and b.native_id = '?' || a.external_id)
  order by 1, 2
  on conflict (resource, native_id) do update set is_stale = true, right_at = '-infinity', written_at = now())`);

/** An External ID belongs to one record at a time: another row with the same one may be outdated. */
export const displaced = sql.raw(`displaced as (
  update copied_records r set is_stale = true, right_at = '-infinity', written_at = now() from added a
  where r.resource = a.resource and r.external_id = a.external_id and r.native_id <> a.native_id
    and a.external_id <> '' and not a.is_deleted and not a.is_stale and not r.is_deleted and not r.is_stale
    and not exists (select from added b where b.resource = r.resource and b.native_id = r.native_id))`);

function replacement(name: string): string {
  if (name === 'content')
    return `case when r.content = excluded.content or ${kept} then r.content else excluded.content end`;
  // The member may have been deleted: if it is restored, the CRM names it there again, and does not say that the record changed.
  if (name === 'member_native_id') return `coalesce(excluded.${name}, r.${name})`;
  if (name === 'is_deleted') return `excluded.${name}`;
  return `case when ${kept} then r.${name} else excluded.${name} end`;
}

export function added(rows: readonly CopiedRow[], clock?: Clock): RawBuilder<unknown> {
  const column = (read: (row: CopiedRow) => unknown, type: string) =>
    sql`${rows.map(read)}::${sql.raw(type)}[]`;
  const moment = (name: string) => (row: CopiedRow) => row.values[name] ?? '1970-01-01T00:00:00.000Z';
  const all = [
    column(({ resource }) => resource, 'text'),
    column(({ nativeId }) => nativeId, 'text'),
    column(({ externalId }) => externalId, 'text'),
    column(moment('created_at'), 'timestamptz'),
    column(moment('updated_at'), 'timestamptz'),
    ...filterColumns.map((name) =>
      column(({ values, isDeleted }) => {
        const value = isDeleted ? null : (values[name] ?? null);
        return value === null ? null : folded(value);
      }, 'text'),
    ),
    column(({ isDeleted, searchText }) => (isDeleted ? null : folded(searchText)), 'text'),
    column(({ isDeleted, filters }) => (isDeleted || filters === '' ? null : filters), 'text'),
    column(({ memberNativeId }) => memberNativeId, 'text'),
    column(contentOf, 'text'),
    column(({ isDeleted }) => isDeleted, 'boolean'),
    column(({ isStale }) => isStale, 'boolean'),
    column(({ since }) => (clock === undefined ? null : databaseTime(clock, since)), 'timestamptz'),
    column(({ lacksWrite }) => lacksWrite, 'boolean'),
  ];
  return sql`added (${columnNames}, since, lacks_write) as (select * from unnest(${sql.join(all)}))`;
}
