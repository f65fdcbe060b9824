import { type RawBuilder, sql } from 'kysely';
import { lastPollBegan } from '../events/reader-table.ts';
import { type CopiedRow, contentOf, filterColumns, folded } from './copied-row.ts';

const columns = [
  ...['resource', 'native_id', 'external_id', 'created_at', 'updated_at', ...filterColumns],
  ...['member_native_id', 'content', 'is_deleted', 'is_stale'],
];
export const columnNames = sql.raw(columns.join(', '));
/** The row was stored after the record was requested. */
export const overlaps = sql.raw('(greatest(r.written_at, r.seen_at) >= excluded.seen_at)');
/** The row was written since the poll began. */
export const isWrittenSince = sql`(r.written_at >= ${lastPollBegan})`;
/** The database's clock was at `at`, or further, when `performance.now()` was `by`; both in milliseconds. */
export interface Clock {
  at: number;
  by: number;
}

/** In milliseconds: how long a comparison of the two clocks is used. */
export const clockMs = 60_000;

/** The database's time at a moment, at the earliest. */
function databaseTime({ at, by }: Clock, since: CopiedRow['since']): string {
  return typeof since === 'string' ? since : new Date(Math.floor(at + since - by)).toISOString();
}

/** Unchanged content is not written again, since it may be large. An empty External ID does not replace a known one. */
export const replaced = sql.raw(
  columns
    .filter((name) => !['resource', 'native_id', 'is_stale'].includes(name))
    .map((name) => `${name} = ${replacement(name)}`)
    .join(', '),
);

/** An External ID belongs to one record at a time: another row with the same one may be outdated. */
export const displaced = sql.raw(`displaced as (
  update copied_records r set is_stale = true, written_at = now() from added a
  where r.resource = a.resource and r.external_id = a.external_id and r.native_id <> a.native_id
    and a.external_id <> '' and not a.is_deleted and not a.is_stale and not r.is_deleted and not r.is_stale
    and not exists (select from added b where b.resource = r.resource and b.native_id = r.native_id))`);

function replacement(name: string): string {
  if (name === 'content')
    return 'case when r.content = excluded.content then r.content else excluded.content end';
  // The member may have been deleted: if it is restored, the CRM names it there again, and does not say that the record changed.
  if (name === 'member_native_id') return `coalesce(excluded.${name}, r.${name})`;
  return name === 'external_id' ? `coalesce(nullif(excluded.${name}, ''), r.${name})` : `excluded.${name}`;
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
    column(({ memberNativeId }) => memberNativeId, 'text'),
    column(contentOf, 'text'),
    column(({ isDeleted }) => isDeleted, 'boolean'),
    column(({ isStale }) => isStale, 'boolean'),
    column(({ since }) => (clock === undefined ? null : databaseTime(clock, since)), 'timestamptz'),
  ];
  return sql`added (${columnNames}, since) as (select * from unnest(${sql.join(all)}))`;
}
