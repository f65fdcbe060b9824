import { joinText, splitText } from '../../platform/base/split-text.ts';
import { isUuid } from '../../platform/base/uuid.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { FieldValues, Links } from '../../records/records.ts';
import type { CrmColumn, Field, FieldKind, Resource } from '../../records/resource.ts';

/** A row as the CRM gives it. */
export type CrmRow = Readonly<Record<string, unknown>>;

/** The CRM's timestamps: `2012-07-12T17:49:01.000+0000`, always UTC in answers. */
const crmTimestamp = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{3})?(?:\+0000|\+00:00|Z)$/;

/**
 * The fields as the CRM takes them in a body. A lookup goes by the other record's External ID, as an object under the
 * relationship's name; emptying it goes by the column itself.
 */
export function toCrmFields(resource: Resource, values: FieldValues): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(values)) {
    const field = resource.fields[name];
    if (field === undefined || field.kind === 'timestamp') {
      throw new RangeError(`${resource.name} has no writable field ${name}`);
    }
    if (field.columns !== undefined) setLongText(fields, field, value);
    else setColumn(fields, field.crm, field.kind === 'uuid' ? (value?.toLowerCase() ?? null) : value);
  }
  return fields;
}

/** The columns that the text does not need are emptied. */
function setLongText(fields: Record<string, unknown>, { crm, columns }: Field, value: string | null): void {
  const parts = value === null ? [] : columns && splitText(value, columns);
  if (parts === undefined) throw new RangeError(`a text that ${crm.path} can't hold`);
  const names = [crm.path, ...(crm.continuations ?? [])];
  for (const [index, name] of names.entries()) fields[name] = parts[index] ?? null;
}

function setColumn(fields: Record<string, unknown>, crm: CrmColumn, value: string | null): void {
  if (crm.lookupColumn === undefined) fields[crm.path] = value;
  else if (value === null) fields[crm.lookupColumn] = null;
  else {
    const [relationship = '', key = ''] = crm.path.split('.');
    fields[relationship] = { [key]: value };
  }
}

/**
 * Makes the reader of a resource's rows: their fields as the API shows them. Content that is not of its field's type
 * is null, and counted.
 */
export function createRowReader(resource: Resource, metrics: Metrics): (row: CrmRow) => FieldValues {
  const columns = Object.entries(resource.fields).map(([name, { kind, crm }]) => ({
    name,
    path: crm.path.split('.'),
    continuations: crm.continuations,
    read: readers[kind],
  }));
  // From 0, so that an alert sees the first.
  for (const { name } of columns)
    metrics.crmUnreadableFields.inc({ resource: resource.name, field: name }, 0);
  return (row) => {
    const values: Record<string, string | null> = {};
    for (const { name, path, continuations, read } of columns) {
      const first = follow(row, path);
      const content = continuations === undefined ? first : joinColumns(first, row, continuations);
      const value = content === null || content === '' ? null : read(content);
      if (value === undefined) metrics.crmUnreadableFields.inc({ resource: resource.name, field: name });
      values[name] = value ?? null;
    }
    return values;
  };
}

/** The text that such columns have together; undefined if a value is not text. */
function joinColumns(first: unknown, row: CrmRow, continuations: readonly string[]): unknown {
  // As in nearly all rows.
  if (typeof first === 'string' && continuations.every((column) => (row[column] ?? '') === '')) return first;
  const parts = [first ?? '', ...continuations.map((column) => row[column] ?? '')];
  return parts.every((part) => typeof part === 'string') ? joinText(parts) : undefined;
}

/** The content of a field, as the CRM has it; null where it, or the record that it leads through, is not there. */
export function readPath(row: CrmRow, { crm }: Field): unknown {
  return follow(row, crm.path.split('.'));
}

/** Makes the reader of the CRM's own ids of the records that a row's fields name. */
export function createLinkReader({ fields }: Resource): (row: CrmRow) => Links {
  const columns = Object.entries(fields).flatMap(([name, { crm }]) =>
    crm.lookupColumn === undefined ? [] : [{ name, column: crm.lookupColumn }],
  );
  return (row) => {
    const links: Record<string, string | null> = {};
    for (const { name, column } of columns) {
      const id = row[column];
      links[name] = typeof id === 'string' ? id : null;
    }
    return links;
  };
}

function follow(row: CrmRow, path: readonly string[]): unknown {
  let content: unknown = row;
  for (const part of path) {
    if (typeof content !== 'object' || content === null) return null;
    content = (content as CrmRow)[part];
  }
  return content ?? null;
}

/** The External ID of a row, as the CRM has it; empty where it has none. */
export function readKey(resource: Resource, row: CrmRow): string {
  const field = resource.fields['id'];
  // Its path is one column: it is the record's own.
  const key = field && row[field.crm.path];
  return typeof key === 'string' ? key : '';
}

/** Undefined for content that is not of the type. */
const readers: Record<FieldKind, (content: unknown) => string | undefined> = {
  text: (content) => (typeof content === 'string' ? content : undefined),
  uuid: (content) => (typeof content === 'string' && isUuid(content) ? content.toLowerCase() : undefined),
  timestamp: readTimestamp,
  json: (content) => (typeof content === 'string' && isJsonObject(content) ? content : undefined),
};

/** RFC 3339 in UTC with milliseconds. */
export function readTimestamp(content: unknown): string | undefined {
  if (typeof content !== 'string' || !crmTimestamp.test(content)) return undefined;
  const moment = content[19] === '.' ? `${content.slice(0, 23)}Z` : `${content.slice(0, 19)}.000Z`;
  return Number.isNaN(Date.parse(moment)) ? undefined : moment;
}

/** Checked only: the text itself goes on, so that no digit of it changes. */
function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
