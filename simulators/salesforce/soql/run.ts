import { ApiError } from '../org/api-error.ts';
import { type Org, sees } from '../org/org.ts';
import { foldFor, isCompound, type ObjectType, type Row, type Value } from '../org/schema.ts';
import type { Timeline } from '../org/timeline.ts';
import { compileFilter, type Filter } from './filter.ts';
import type { OrderTerm, ParsedQuery } from './parse.ts';
import { type FieldPath, resolvePath } from './paths.ts';
import { candidates, createdSpan } from './plan.ts';
import { fieldError, malformedQuery } from './query-error.ts';

const MAX_OFFSET = 2000;

interface Sorting extends OrderTerm {
  path: FieldPath;
}

export interface QueryResult {
  type: ObjectType;
  rows: Row[];
  columns: { name: string; path: FieldPath }[];
}

function resolveSorting(org: Org, type: ObjectType, query: ParsedQuery): Sorting[] {
  return query.orderBy.map((term) => {
    const path = resolvePath(org, type, query.soql, term.field);
    if (path.field.long || path.field.type === 'multipicklist' || isCompound(path.field)) {
      throw fieldError(
        query.soql,
        term.field,
        `field '${path.field.name}' can not be sorted in a query call`,
      );
    }
    return { ...term, path };
  });
}

function resolveColumns(org: Org, type: ObjectType, query: ParsedQuery): QueryResult['columns'] {
  const seen = new Set<string>();
  return query.fields.map((name) => {
    if (seen.has(name.toLowerCase())) throw malformedQuery(`duplicate field selected: ${name}`);
    seen.add(name.toLowerCase());
    return { name, path: resolvePath(org, type, query.soql, name) };
  });
}

function compareValues(a: Value | undefined, b: Value | undefined, sorting: Sorting): number {
  if (a === b) return 0;
  // Nulls come first in either direction unless NULLS LAST is written (SOQL Reference, ORDER BY).
  if (a === undefined || b === undefined) return (a === undefined) === sorting.nullsLast ? 1 : -1;
  const forward = a < b ? -1 : 1;
  return sorting.descending ? -forward : forward;
}

function comparator(sortings: Sorting[]): (a: Row, b: Row) => number {
  const readers = sortings.map((sorting) => {
    const fold = foldFor(sorting.path.field);
    const read = (row: Row): Value | undefined => {
      const value = sorting.path.read(row);
      return value === undefined ? undefined : fold(value);
    };
    return { sorting, read };
  });
  return (a, b) => {
    for (const { sorting, read } of readers) {
      const order = compareValues(read(a), read(b), sorting);
      if (order !== 0) return order;
    }
    return 0;
  };
}

function sameField(sorting: Sorting, name: string | undefined): boolean {
  return sorting.path.lookups.length === 0 && sorting.path.field.name === name;
}

/** True where ORDER BY is the order that the timeline is kept in, forwards or backwards. */
function followsTimeline(timeline: Timeline, sortings: Sorting[]): boolean {
  const [first, second] = sortings;
  if (first === undefined) return false;
  const kept = ['CreatedDate', timeline.key?.name, 'Id'];
  const same = sortings.every(
    (sorting, index) => sorting.descending === first.descending && sameField(sorting, kept[index]),
  );
  if (!same || second === undefined || timeline.keyless() === 0) return same;
  // The timeline has keyless rows first; any other position for them needs a sort.
  return second.nullsLast === second.descending;
}

/** Reads the timeline from the end that ORDER BY asks for, only within the filter's span, until `maximum` rows. */
function walkTimeline(
  timeline: Timeline,
  filter: Filter | undefined,
  accepts: (row: Row) => boolean,
  backwards: boolean,
  maximum: number,
): Row[] {
  const { from, to } = createdSpan(filter);
  const start = from === undefined ? 0 : timeline.firstAt(from);
  const end = to === undefined ? timeline.rows.length : timeline.firstAfter(to);
  const found: Row[] = [];
  for (let step = 0; step < end - start && found.length < maximum; step += 1) {
    const row = timeline.rows[backwards ? end - 1 - step : start + step];
    if (row !== undefined && accepts(row)) found.push(row);
  }
  return found;
}

function selectRows(
  org: Org,
  type: ObjectType,
  filter: Filter | undefined,
  sortings: Sorting[],
  maximum: number,
  withDeleted: boolean,
): Row[] {
  const { rows, timeline, deleted } = org.store.table(type);
  const dead = withDeleted ? [...deleted.values()].filter((row) => row !== undefined) : [];
  const accepts = (row: Row) => sees(org, type, row) && (filter === undefined || filter.accepts(row));
  const indexed = candidates(org, type, filter);
  if (indexed === undefined && dead.length === 0 && followsTimeline(timeline, sortings)) {
    return walkTimeline(timeline, filter, accepts, sortings[0]?.descending === true, maximum);
  }
  const all = [...(indexed ?? rows.values()), ...dead];
  const matching = all.filter(accepts);
  return sortings.length === 0 ? matching : matching.sort(comparator(sortings));
}

/** OFFSET has a ceiling, and using it caps the whole result (SOQL Reference, OFFSET). */
function pageLimits(query: ParsedQuery): { offset: number; maximum: number } {
  const offset = query.offset ?? 0;
  if (offset > MAX_OFFSET) {
    const message = `Maximum SOQL offset allowed is ${MAX_OFFSET}`;
    throw new ApiError(400, 'NUMBER_OUTSIDE_VALID_RANGE', message);
  }
  const limit = query.limit ?? Number.POSITIVE_INFINITY;
  return { offset, maximum: offset + (query.offset === undefined ? limit : Math.min(limit, MAX_OFFSET)) };
}

/**
 * Runs a query over the records as they are now; with `withDeleted` also over those in the recycle bin.
 * @throws ApiError INVALID_TYPE, INVALID_FIELD, NUMBER_OUTSIDE_VALID_RANGE or INVALID_QUERY_FILTER_OPERATOR.
 */
export function runQuery(org: Org, query: ParsedQuery, withDeleted = false): QueryResult {
  const type = org.schema.find(query.object);
  if (type === undefined) {
    const message = `sObject type '${query.object}' is not supported. If you are attempting to use a custom object, be sure to append the '__c' after the entity name. Please reference your WSDL or the describe call for the appropriate names.`;
    throw new ApiError(400, 'INVALID_TYPE', message);
  }
  const columns = resolveColumns(org, type, query);
  const filter = compileFilter(org, type, query);
  const sortings = resolveSorting(org, type, query);
  const { offset, maximum } = pageLimits(query);
  const rows = selectRows(org, type, filter, sortings, maximum, withDeleted);
  return { type, columns, rows: rows.slice(offset, maximum) };
}
