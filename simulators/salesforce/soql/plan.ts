import type { Org } from '../org/org.ts';
import type { ObjectType, Row, Value } from '../org/schema.ts';
import type { Filter } from './filter.ts';
import type { FieldPath } from './paths.ts';

type Test = Extract<Filter, { kind: 'test' }>;

function rowsByValue(org: Org, type: ObjectType, path: FieldPath, value: Value): Row[] | undefined {
  if (path.field.type === 'id') {
    const row = org.store.get(type, String(value).slice(0, 15));
    return row === undefined ? [] : [row];
  }
  return org.store.table(type).indexes.has(path.field.name)
    ? org.store.find(type, path.field, value)
    : undefined;
}

function rowsByParent(org: Org, type: ObjectType, path: FieldPath, value: Value): Row[] | undefined {
  const [lookup, ...further] = path.lookups;
  if (lookup === undefined || further.length > 0) return undefined;
  if (!org.store.table(type).indexes.has(lookup.field.name)) return undefined;
  const parents = rowsByValue(org, lookup.target, path, value);
  return parents?.flatMap((parent) => org.store.find(type, lookup.field, parent.Id));
}

function testCandidates(org: Org, type: ObjectType, test: Test): Row[] | undefined {
  if (test.operator !== '=' && test.operator !== 'IN') return undefined;
  const found = new Set<Row>();
  for (const value of test.values) {
    if (value === undefined) return undefined;
    const find = test.path.lookups.length === 0 ? rowsByValue : rowsByParent;
    const rows = find(org, type, test.path, value);
    if (rows === undefined) return undefined;
    for (const row of rows) found.add(row);
  }
  return [...found];
}

function union(parts: (Row[] | undefined)[]): Row[] | undefined {
  const all = new Set<Row>();
  for (const part of parts) {
    if (part === undefined) return undefined;
    for (const row of part) all.add(row);
  }
  return [...all];
}

function smallest(parts: (Row[] | undefined)[]): Row[] | undefined {
  const known = parts.filter((part) => part !== undefined);
  return known.sort((a, b) => a.length - b.length)[0];
}

/** A superset of the rows that the filter accepts, found in the indexes; undefined where none of them helps. */
export function candidates(org: Org, type: ObjectType, filter: Filter | undefined): Row[] | undefined {
  if (filter === undefined || filter.kind === 'not') return undefined;
  if (filter.kind === 'test') return testCandidates(org, type, filter);
  const parts = filter.filters.map((part) => candidates(org, type, part));
  return filter.kind === 'and' ? smallest(parts) : union(parts);
}

/** The span of CreatedDate outside of which the filter accepts nothing; an open end is absent. */
export interface CreatedSpan {
  from?: string;
  to?: string;
}

function testSpan(test: Test): CreatedSpan {
  const value = test.values[0];
  if (test.path.lookups.length > 0 || test.path.field.name !== 'CreatedDate') return {};
  if (typeof value !== 'string' || test.values.length > 1) return {};
  switch (test.operator) {
    case '=':
    case 'IN':
      return { from: value, to: value };
    case '<':
    case '<=':
      return { to: value };
    case '>':
    case '>=':
      return { from: value };
    default:
      return {};
  }
}

function highest(values: (string | undefined)[]): string | undefined {
  return values
    .filter((value) => value !== undefined)
    .sort()
    .at(-1);
}

function lowest(values: (string | undefined)[]): string | undefined {
  return values.filter((value) => value !== undefined).sort()[0];
}

function span(from: string | undefined, to: string | undefined): CreatedSpan {
  return { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
}

/** Where a page of a list begins, so that the pages before it are not walked again (keyset paging). */
export function createdSpan(filter: Filter | undefined): CreatedSpan {
  if (filter === undefined || filter.kind === 'not') return {};
  if (filter.kind === 'test') return testSpan(filter);
  const parts = filter.filters.map(createdSpan);
  const froms = parts.map((part) => part.from);
  const tos = parts.map((part) => part.to);
  if (filter.kind === 'and') return span(highest(froms), lowest(tos));
  // One open alternative leaves the whole span open.
  return span(
    froms.includes(undefined) ? undefined : lowest(froms),
    tos.includes(undefined) ? undefined : highest(tos),
  );
}
