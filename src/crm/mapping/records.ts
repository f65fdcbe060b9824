import { isObject, rawJson } from '../../platform/base/json-text.ts';
import { isUuid, joinText, splitText } from '../../platform/base/text.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { isDate, isNumber } from '../../records/org-types.ts';
import type { FieldValues, Links } from '../../records/records.ts';
import type { CrmColumn, Field, FieldKind, Resource } from '../../records/resource.ts';

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
    if (field === undefined || (field.kind === 'timestamp' && !field.writable)) {
      throw new RangeError(`${resource.name} has no writable field ${name}`);
    }
    if (field.columns !== undefined) setLongText(fields, field, value);
    else setColumn(fields, field.crm, contentOf(field, value));
  }
  return fields;
}

function contentOf({ kind }: Field, value: string | null): unknown {
  if (value === null) return null;
  if (kind === 'uuid') return value.toLowerCase();
  if (kind === 'number') return rawJson(value);
  return kind === 'boolean' ? value === 'true' : value;
}

export function constantsOf({ constants = {}, fit }: Resource): Record<string, unknown> {
  const columns: Record<string, unknown> = {};
  for (const [column, value] of Object.entries(constants))
    columns[column] = typeof value === 'object' ? fit.recordTypeId(value.recordType) : value;
  return columns;
}

function setLongText(fields: Record<string, unknown>, { crm, columns }: Field, value: string | null): void {
  const parts = value === null ? [] : columns && splitText(value, columns);
  if (parts === undefined) throw new RangeError(`a text that ${crm.path} can't hold`);
  const names = [crm.path, ...(crm.continuations ?? [])];
  for (const [index, name] of names.entries()) fields[name] = parts[index] ?? null;
}

function setColumn(fields: Record<string, unknown>, crm: CrmColumn, value: unknown): void {
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
  const columns = Object.entries(resource.fields).map(([name, field]) => ({
    name,
    path: field.crm.path.split('.'),
    continuations: field.crm.continuations,
    field,
  }));
  // From 0, so that an alert sees the first.
  for (const { name } of columns)
    metrics.crmUnreadableFields.inc({ resource: resource.name, field: name }, 0);
  return (row) => {
    const values: Record<string, string | null> = {};
    for (const { name, path, continuations, field } of columns) {
      const first = field.isAbsent ? null : follow(row, path);
      const content = continuations === undefined ? first : joinColumns(first, row, continuations);
      const value = content === null || content === '' ? emptyOf(field) : readers[field.kind](content);
      if (value === undefined) {
        metrics.crmUnreadableFields.inc({ resource: resource.name, field: name });
        if (!ownKinds.includes(field.kind)) void resource.fit.onRefused({ about: `content of ${name}` });
      }
      values[name] = value ?? null;
    }
    return values;
  };
}

/**
 * Hidden fields are not known, rather than empty: takes the fields that `used` does not have out of the values, except those that an
 * org need not have.
 */
export function withoutHidden({ fields }: Resource, used: Resource) {
  const hidden = Object.entries(fields).flatMap(([name, { optional, isAbsent }]) =>
    used.fields[name] === undefined && optional === undefined && !isAbsent ? [name] : [],
  );
  return <R extends { values: FieldValues } | undefined>(record: R): R => {
    if (hidden.length === 0 || record === undefined) return record;
    const values = Object.entries(record.values).filter(([name]) => !hidden.includes(name));
    return { ...record, values: Object.fromEntries(values) };
  };
}

const ownKinds: readonly FieldKind[] = ['json', 'uuid', 'unknown'];

/** The text that such columns have together; undefined if a value is not text. */
function joinColumns(first: unknown, row: CrmRow, continuations: readonly string[]): unknown {
  // As in nearly all rows.
  if (typeof first === 'string' && continuations.every((column) => (row[column] ?? '') === '')) return first;
  const parts = [first ?? '', ...continuations.map((column) => row[column] ?? '')];
  return parts.every((part) => typeof part === 'string') ? joinText(parts) : undefined;
}

export function readPath(row: CrmRow, { crm }: Field): unknown {
  return follow(row, crm.path.split('.'));
}

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

export function readKey(resource: Resource, row: CrmRow): string {
  const field = resource.fields['id'];
  // Its path is one column: it is the record's own.
  const key = field && row[field.crm.path];
  return typeof key === 'string' ? key : '';
}

/** The CRM's boolean fields are never empty; one that is read through a formula may be. */
function emptyOf({ kind, optional }: Field): string | null {
  return kind === 'boolean' && optional === undefined ? 'false' : null;
}

const readText = (content: unknown) => (typeof content === 'string' ? content : undefined);

/** Undefined for content that is not of the type. */
const readers: Record<FieldKind, (content: unknown) => string | undefined> = {
  text: readText,
  choice: readText,
  choices: readText,
  number: readNumber,
  boolean: (content) => (typeof content === 'boolean' ? String(content) : undefined),
  date: (content) => (typeof content === 'string' && isDate(content) ? content : undefined),
  unknown: () => undefined,
  uuid: (content) => (typeof content === 'string' && isUuid(content) ? content.toLowerCase() : undefined),
  timestamp: readTimestamp,
  json: (content) => (typeof content === 'string' && isJsonObject(content) ? content : undefined),
};

function readNumber(content: unknown): string | undefined {
  if (typeof content === 'number') return String(content);
  return typeof content === 'string' && isNumber(content) ? content : undefined;
}

/** RFC 3339 in UTC with milliseconds. */
export function readTimestamp(content: unknown): string | undefined {
  if (typeof content !== 'string' || !crmTimestamp.test(content)) return undefined;
  const moment = content[19] === '.' ? `${content.slice(0, 23)}Z` : `${content.slice(0, 19)}.000Z`;
  return Number.isNaN(Date.parse(moment)) ? undefined : moment;
}

function isJsonObject(text: string): boolean {
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}
