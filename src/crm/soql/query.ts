import type { Visible } from '../../platform/base/call.ts';
import type { ChangePlace } from '../../records/changes.ts';
import { ownerField } from '../../records/created-by.ts';
import type { Field, Resource } from '../../records/resource.ts';
import { formatDateTime, quoteText } from './literal.ts';

/** Where a page starts: after the record with this moment and this External ID, as the CRM has them. */
export interface Position {
  at: string;
  externalId: string;
}

export interface PageQuery {
  /** Equality, by API field name. */
  filters: Readonly<Record<string, string | null>>;
  visible: Visible;
  /** Only records changed then or later, in the order of their changes. */
  updatedSince?: string | undefined;
  after?: Position | undefined;
  limit: number;
  /** Leaves out records whose External ID has not the shape of a UUID; no index helps there, so only where it pays. */
  shaped?: boolean;
}

/** For LIKE, where an underscore stands for any one character. */
const uuidShape = "'________-____-____-____-____________'";

/*
 * The only place where queries are put together. Names come from the declarations of resources, values through
 * `quoteText` and `formatDateTime`, numbers through a check; nothing else is ever part of a query.
 */

/** External IDs that are looked up for one and the same: for all records, or for those of one consumer. */
export interface WantedKeys {
  keys: readonly string[];
  visible: Visible;
}

/**
 * The records with these External IDs, as far as each may be seen; a record may come in lower and in upper case. There
 * must be at least one key. `withDeleted`: also deleted records, of which any number may have one key.
 */
export function findQuery(resource: Resource, wanted: readonly WantedKeys[], withDeleted = false): string {
  const key = fieldOf(resource, 'id').crm.path;
  const conditions = wanted.map(({ keys, visible }) => {
    const spellings = keys.flatMap((id) => [id.toLowerCase(), id.toUpperCase()]);
    const condition = `${key} IN ${listOf(spellings)}`;
    return visible === 'all' ? condition : `(${condition} AND ${ownedBy(resource, visible)})`;
  });
  const count = wanted.reduce((sum, { keys }) => sum + keys.length, 0);
  const fields = select(resource, withDeleted ? ['IsDeleted'] : []);
  return `${fields} WHERE ${conditions.join(' OR ')}${count === 1 && !withDeleted ? ' LIMIT 2' : ''}`;
}

function ownedBy(resource: Resource, { consumerId }: Exclude<Visible, 'all'>): string {
  return `${fieldOf(resource, ownerField).crm.path} = ${quoteText(consumerId)}`;
}

/** The records with these identifiers of the CRM's own. */
export function byIdsQuery(resource: Resource, nativeIds: readonly string[]): string {
  return `${select(resource)} WHERE Id IN ${listOf(nativeIds)}`;
}

function listOf(texts: readonly string[]): string {
  return `(${texts.map(quoteText).join(',')})`;
}

/** A page, newest first; or, from a moment on, in the order of changes. Ties are broken by External ID. */
export function pageQuery(resource: Resource, query: PageQuery): string {
  const key = fieldOf(resource, 'id').crm.path;
  const { updatedSince } = query;
  const time = fieldOf(resource, updatedSince === undefined ? 'created_at' : 'updated_at').crm.path;
  const [behind, direction] = updatedSince === undefined ? ['<', ' DESC'] : ['>', ''];
  const conditions = [query.shaped === true ? `${key} LIKE ${uuidShape}` : `${key} != null`];
  for (const [name, value] of Object.entries(query.filters)) {
    conditions.push(`${fieldOf(resource, name).crm.path} = ${literal(fieldOf(resource, name), value)}`);
  }
  if (query.visible !== 'all') conditions.push(ownedBy(resource, query.visible));
  if (updatedSince !== undefined) conditions.push(`${time} >= ${formatDateTime(updatedSince)}`);
  if (query.after !== undefined) {
    const at = formatDateTime(query.after.at);
    const id = quoteText(query.after.externalId);
    conditions.push(`(${time} ${behind} ${at} OR (${time} = ${at} AND ${key} ${behind} ${id}))`);
  }
  const order = `ORDER BY ${time}${direction}, ${key}${direction}`;
  return `${select(resource)} WHERE ${conditions.join(' AND ')} ${order} LIMIT ${wholeNumber(query.limit)}`;
}

/** The changes of a resource after a position, and before a time if one is given. */
export interface ChangesQuery {
  place: ChangePlace;
  before?: string;
  limit: number;
}

/** Changes, deleted records included where the query may see them; oldest first, ties broken by native id. */
export function changesQuery(resource: Resource, query: ChangesQuery): string {
  return `${select(resource, ['IsDeleted', 'SystemModstamp'])} ${changes(query)}`;
}

/** The same records, with only these columns. */
export function columnsOfChangesQuery(
  { crmObject }: Resource,
  columns: readonly string[],
  query: ChangesQuery,
): string {
  return `SELECT ${['Id', 'SystemModstamp', ...columns].join(', ')} FROM ${crmObject} ${changes(query)}`;
}

/** Native ids of records with an External ID, in order. */
export function idsQuery(
  resource: Resource,
  { after, to }: { after: string; to?: string },
  limit: number,
): string {
  const conditions = [`${fieldOf(resource, 'id').crm.path} != null`];
  if (after !== '') conditions.push(`Id > ${quoteText(after)}`);
  if (to !== undefined) conditions.push(`Id <= ${quoteText(to)}`);
  return `SELECT Id FROM ${resource.crmObject} WHERE ${conditions.join(' AND ')} ORDER BY Id LIMIT ${wholeNumber(limit)}`;
}

function changes({ place: { stamp, nativeId }, before, limit }: ChangesQuery): string {
  const at = formatDateTime(stamp);
  const behind =
    nativeId === undefined
      ? `SystemModstamp >= ${at}`
      : `(SystemModstamp > ${at} OR (SystemModstamp = ${at} AND Id > ${quoteText(nativeId)}))`;
  const end = before === undefined ? '' : ` AND SystemModstamp < ${formatDateTime(before)}`;
  return `WHERE ${behind}${end} ORDER BY SystemModstamp, Id LIMIT ${wholeNumber(limit)}`;
}

function select(resource: Resource, further: readonly string[] = []): string {
  const paths = Object.values(resource.fields).flatMap(({ crm }) => [
    crm.path,
    ...(crm.lookupColumn === undefined ? [] : [crm.lookupColumn]),
    ...(crm.continuations ?? []),
  ]);
  return `SELECT ${['Id', ...further, ...paths].join(', ')} FROM ${resource.crmObject}`;
}

function fieldOf(resource: Resource, name: string): Field {
  const field = Object.hasOwn(resource.fields, name) ? resource.fields[name] : undefined;
  if (field === undefined) throw new RangeError(`${resource.name} has no field of this name`);
  return field;
}

function literal(field: Field, value: string | null): string {
  if (value === null) return 'null';
  if (field.kind === 'timestamp') return formatDateTime(value);
  return quoteText(field.kind === 'uuid' ? value.toLowerCase() : value);
}

function wholeNumber(value: number): string {
  if (!Number.isSafeInteger(value) || value < 1) throw new RangeError('not a whole number above 0');
  return String(value);
}
