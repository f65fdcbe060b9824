import { isUuid } from '../../base/uuid.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { FieldValues } from '../../resources/records.ts';
import type { CrmColumn, Field, FieldKind, Resource } from '../../resources/resource.ts';

/** A row as the CRM gives it. */
export type CrmRow = Readonly<Record<string, unknown>>;

/** The CRM's timestamps: `2012-07-12T17:49:01.000+0000`, always UTC in answers. */
const crmTimestamp = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d{3})?(?:\+0000|\+00:00|Z)$/;

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
    Object.assign(
      fields,
      toColumn(field.crm, field.kind === 'uuid' ? (value?.toLowerCase() ?? null) : value),
    );
  }
  return fields;
}

function toColumn(crm: CrmColumn, value: string | null): Record<string, unknown> {
  if (crm.lookupColumn === undefined) return { [crm.path]: value };
  if (value === null) return { [crm.lookupColumn]: null };
  const [relationship = '', key = ''] = crm.path.split('.');
  return { [relationship]: { [key]: value } };
}

/** The fields of a row as the API shows them; content that is not of its field's type is null, and counted. */
export function fromCrmRow(resource: Resource, row: CrmRow, metrics: Metrics): FieldValues {
  const values: Record<string, string | null> = {};
  for (const [name, field] of Object.entries(resource.fields)) {
    const content = readPath(row, field);
    const value = content === null || content === '' ? null : readers[field.kind](content);
    if (value === undefined) metrics.crmUnreadableFields.inc({ resource: resource.name, field: name });
    values[name] = value ?? null;
  }
  return values;
}

/** The content of a field, as the CRM has it; null where it, or the record that it leads through, is not there. */
export function readPath(row: CrmRow, field: Field): unknown {
  let content: unknown = row;
  for (const part of field.crm.path.split('.')) {
    if (typeof content !== 'object' || content === null) return null;
    content = (content as CrmRow)[part];
  }
  return content ?? null;
}

/** The External ID of a row, as the CRM has it; empty where it has none. */
export function readKey(resource: Resource, row: CrmRow): string {
  const field = resource.fields['id'];
  const key = field && readPath(row, field);
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
  const parts = typeof content === 'string' ? crmTimestamp.exec(content) : null;
  if (parts === null) return undefined;
  const moment = `${parts[1]}${parts[2] ?? '.000'}Z`;
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
