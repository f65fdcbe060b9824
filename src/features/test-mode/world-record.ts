import { type Creator, creatorValues, ownerField } from '../../records/created-by.ts';
import {
  type FieldValues,
  type ListQuery,
  type RecordPage,
  type StoredRecord,
  startPage,
} from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { folded, searchText } from '../../records/search.ts';
import type { Row, Written } from './worlds-table.ts';

const nativePattern = /^a0t(\d{15})$/;

/** The number of the row that an identifier stands for; undefined where it is no identifier of a row. */
export function rowIdOf(nativeId: string): string | undefined {
  return nativePattern.exec(nativeId)?.[1];
}

export function toWritten(resource: Resource, values: FieldValues): Written {
  const { fields } = resource;
  const content: Record<string, string | null> = {};
  const filters: Record<string, string | null> = {};
  for (const [name, value] of Object.entries(values)) {
    const field = fields[name];
    if (field === undefined || field.isAbsent || name === 'created_at' || name === 'updated_at') continue;
    content[name] = field.kind === 'uuid' && value !== null ? value.toLowerCase() : value;
    if (field.filter && value !== null) filters[name] = folded(value);
  }
  // No field has the name of a parameter of lists.
  filters['q'] = folded(searchText(resource, values));
  return { content: JSON.stringify(content), filters: JSON.stringify(filters) };
}

/** All fields of the resource, null where there is no value. */
export function allFields({ fields }: Resource, values: FieldValues): FieldValues {
  const all: Record<string, string | null> = {};
  for (const name of Object.keys(fields)) all[name] = values[name] ?? null;
  return all;
}

/** A deleted record has lost its content, but still says whose it was. */
export function toRecord(resource: Resource, row: Row): StoredRecord {
  const values = {
    ...(row.is_deleted && { [ownerField]: row.consumer_id }),
    ...(JSON.parse(row.content) as FieldValues),
    id: row.external_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
  return {
    nativeId: `a0t${row.id.padStart(15, '0')}`,
    values: allFields(resource, values),
    ...(row.is_deleted && { isDeleted: true }),
  };
}

export function newValues(values: FieldValues, call: Creator): FieldValues {
  return { status: 'created', ...values, ...creatorValues(call) };
}

export function toPage(found: readonly FieldValues[], query: ListQuery): RecordPage {
  const { page, add } = startPage(query);
  for (const values of found) if (!add(values)) break;
  return page;
}

export function pickMembers(
  resource: Resource,
  members: readonly FieldValues[],
  query: ListQuery,
): FieldValues[] {
  const { filters, search, updatedSince, after, limit } = query;
  const wanted = Object.entries(filters);
  const positionOf = ({ id, created_at, updated_at }: FieldValues) =>
    `${updatedSince === undefined ? created_at : updated_at} ${id}`;
  const position = after && `${after.at} ${after.id}`;
  const isWanted = (values: FieldValues) =>
    (search === undefined || folded(searchText(resource, values)).includes(folded(search))) &&
    wanted.every(([name, value]) => value !== null && folded(values[name] ?? '') === folded(value)) &&
    (updatedSince === undefined || (values['updated_at'] ?? '') >= updatedSince);
  const isBehind = (values: FieldValues) =>
    position === undefined ||
    (updatedSince === undefined ? positionOf(values) < position : positionOf(values) > position);
  // Newest first, as they are; by their changes the other way round.
  const ordered = updatedSince === undefined ? members : members.toReversed();
  return ordered.filter((values) => isWanted(values) && isBehind(values)).slice(0, limit + 1);
}
