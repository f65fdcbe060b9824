import type { Visible } from '../../platform/base/call.ts';
import type { ChangePosition } from '../../records/changes.ts';
import { ownerField } from '../../records/created-by.ts';
import type { Field, OwnerRule, Resource } from '../../records/resource.ts';
import { searchedTexts } from '../../records/search.ts';

/** Escapes that SOQL knows; any other backslash is an error (SOQL and SOSL Reference, Quoted String Escape Sequences). */
const escapes: Record<string, string> = {
  '\\': '\\\\',
  "'": "\\'",
  '"': '\\"',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\b': '\\b',
  '\f': '\\f',
};

/** Characters that must be escaped or refused: quotes, backslashes, controls, line separators, halves of surrogates. */
const special = /[\\'"]|\p{Cc}|\p{Zl}|\p{Zp}|\p{Cs}/gu;

/** Text that need not be checked character by character: identifiers, of which a query has many. */
const plain = /^[A-Za-z0-9-]*$/;

export function quoteText(text: string): string {
  if (plain.test(text)) return `'${text}'`;
  return `'${text.replace(special, escapeCharacter)}'`;
}

/**
 * A text as a part of a pattern for LIKE, without the quotes: the wildcards in it stand for themselves (SOQL and SOSL
 * Reference, Comparison Operators).
 */
function likeText(text: string): string {
  return text.replace(special, escapeCharacter).replace(/[%_]/g, '\\$&');
}

function escapeCharacter(character: string): string {
  return escapes[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`;
}

const rfc3339Utc = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3})?Z$/;

/** A moment as a SOQL dateTime literal, which stands unquoted. Throws `RangeError` for anything that is none. */
export function formatDateTime(moment: string): string {
  if (!rfc3339Utc.test(moment) || Number.isNaN(Date.parse(moment)))
    throw new RangeError('not a moment in UTC');
  // Whole seconds, the CRM's own grain, need no fraction.
  return moment.replace('.000Z', 'Z');
}

export interface Position {
  at: string;
  externalId: string;
}

interface PageQuery {
  /** Equality, by API field name. */
  filters: Readonly<Record<string, string | null>>;
  search?: string | undefined;
  visible: Visible;
  updatedSince?: string | undefined;
  after?: Position | undefined;
  limit: number;
  shaped?: boolean;
}

/** For LIKE, where an underscore stands for any one character. */
const uuidShape = "'________-____-____-____-____________'";

/*
 * The only place where queries are put together. Names come from the declarations of resources, values through
 * `quoteText` and `formatDateTime`, numbers through a check; nothing else is ever part of a query.
 */

export interface WantedKeys {
  keys: readonly string[];
  visible: Visible;
}

export interface RowsQuery {
  select: string;
  where: string;
  records: number;
  limit?: number | undefined;
  withDeleted: boolean;
}

export function toSoql({ select: columns, where, limit }: RowsQuery): string {
  return `${columns} WHERE ${where}${limit === undefined ? '' : ` LIMIT ${wholeNumber(limit)}`}`;
}

export function together(queries: readonly [RowsQuery, ...RowsQuery[]]): RowsQuery {
  const [first] = queries;
  if (queries.length === 1) return first;
  return {
    ...first,
    where: queries.map(({ where }) => `(${where})`).join(' OR '),
    records: queries.reduce((sum, { records }) => sum + records, 0),
    limit: undefined,
  };
}

/**
 * The records with these External IDs, as far as each may be seen; a record may come in lower and in upper case. There
 * must be at least one key. `withDeleted`: also deleted records, of which any number may have one key.
 */
export function findQuery(resource: Resource, wanted: readonly WantedKeys[], withDeleted = false): RowsQuery {
  const key = fieldOf(resource, 'id').crm.path;
  const conditions = wanted.map(({ keys, visible }) => {
    const spellings = keys.flatMap((id) => [id.toLowerCase(), id.toUpperCase()]);
    const condition = `${key} IN ${listOf(spellings)}`;
    return visible === 'all' ? condition : `(${condition} AND ${ownedBy(resource, visible)})`;
  });
  const records = wanted.reduce((sum, { keys }) => sum + keys.length, 0);
  return {
    select: select(resource, withDeleted ? ['IsDeleted'] : []),
    where: conditions.join(' OR '),
    records,
    limit: records === 1 && !withDeleted ? 2 : undefined,
    withDeleted,
  };
}

export function userQuery(field: OwnerRule['match'], text: string): RowsQuery {
  const where = `${field} = ${quoteText(text)} AND IsActive = true`;
  return { select: `SELECT Id,${field} FROM User`, where, records: 1, limit: 20, withDeleted: false };
}

export function queueQuery(developerName: string): RowsQuery {
  const where = `Type = 'Queue' AND DeveloperName = ${quoteText(developerName)}`;
  return { select: 'SELECT Id,DeveloperName FROM Group', where, records: 1, limit: 2, withDeleted: false };
}

/** Rights on these objects, one row for each permission set of the user; its profile has one too. */
export function rightsQuery(objects: readonly string[], userId: string): RowsQuery {
  const sets = `SELECT PermissionSetId FROM PermissionSetAssignment WHERE AssigneeId = ${quoteText(userId)}`;
  const where = `SobjectType IN ${listOf(objects)} AND ParentId IN (${sets})`;
  const rights = 'SELECT SobjectType,PermissionsViewAllRecords FROM ObjectPermissions';
  return { select: rights, where, records: objects.length, withDeleted: false };
}

function ownedBy(resource: Resource, { consumerId }: Exclude<Visible, 'all'>): string {
  return `${fieldOf(resource, ownerField).crm.path} = ${quoteText(consumerId)}`;
}

export function byIdsQuery(resource: Resource, nativeIds: readonly string[]): RowsQuery {
  const where = `Id IN ${listOf(nativeIds)}`;
  return { select: select(resource), where, records: nativeIds.length, withDeleted: false };
}

function listOf(texts: readonly string[]): string {
  return `(${texts.map(quoteText).join(',')})`;
}

export function pageQuery(resource: Resource, query: PageQuery): string {
  const key = fieldOf(resource, 'id').crm.path;
  const { updatedSince } = query;
  const time = fieldOf(resource, updatedSince === undefined ? 'created_at' : 'updated_at').crm.path;
  const [behind, direction] = updatedSince === undefined ? ['<', ' DESC'] : ['>', ''];
  const conditions = [query.shaped === true ? `${key} LIKE ${uuidShape}` : `${key} != null`];
  for (const [name, value] of Object.entries(query.filters)) {
    conditions.push(filter(fieldOf(resource, name), value));
  }
  if (query.search !== undefined) conditions.push(searchCondition(resource, query.search));
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

/** Spaces of a search that may be the one between two fields; a search with more is looked for in single fields only. */
const mostSpaces = 4;

function searchCondition(resource: Resource, search: string): string {
  const like = (name: string, pattern: string) => `${fieldOf(resource, name).crm.path} LIKE '${pattern}'`;
  const spaces = Array.from(search.matchAll(/ /g), ({ index }) => index).slice(0, mostSpaces);
  const conditions = searchedTexts(resource).flatMap((names) => [
    ...names.map((name) => like(name, `%${likeText(search)}%`)),
    ...names.slice(1).flatMap((name, index) =>
      spaces.map((at) => {
        const end = like(names[index] as string, `%${likeText(search.slice(0, at))}`);
        return `(${end} AND ${like(name, `${likeText(search.slice(at + 1))}%`)})`;
      }),
    ),
  ]);
  // No record is found where the org has none of the fields.
  return conditions.length === 0 ? 'Id = null' : `(${conditions.join(' OR ')})`;
}

export interface ChangesQuery {
  position: ChangePosition;
  before?: string;
  limit: number;
}

export function changesQuery(resource: Resource, query: ChangesQuery): string {
  return `${select(resource, ['IsDeleted', 'SystemModstamp'])} ${changes(query)}`;
}

export function columnsOfChangesQuery(
  { crmObject }: Resource,
  columns: readonly string[],
  query: ChangesQuery,
): string {
  return `SELECT ${['Id', 'SystemModstamp', ...columns].join(', ')} FROM ${crmObject} ${changes(query)}`;
}

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

function changes({ position: { stamp, nativeId }, before, limit }: ChangesQuery): string {
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
  return `SELECT ${[...new Set(['Id', ...further, ...paths])].join(', ')} FROM ${resource.crmObject}`;
}

function fieldOf(resource: Resource, name: string): Field {
  const field = Object.hasOwn(resource.fields, name) ? resource.fields[name] : undefined;
  if (field === undefined) throw new RangeError(`${resource.name} has no field of this name`);
  return field;
}

function filter(field: Field, value: string | null): string {
  const { path } = field.crm;
  if (field.kind === 'choices' && value !== null) return `${path} INCLUDES (${quoteText(value)})`;
  return `${path} = ${literal(field, value)}`;
}

function literal({ kind }: Field, value: string | null): string {
  if (value === null) return 'null';
  if (kind === 'timestamp') return formatDateTime(value);
  if (kind === 'number' || kind === 'date' || kind === 'boolean') return bare(value);
  return quoteText(kind === 'uuid' ? value.toLowerCase() : value);
}

function bare(value: string): string {
  if (!/^(-?\d+(\.\d+)?([eE][+-]?\d+)?|\d{4}-\d{2}-\d{2}|true|false)$/.test(value))
    throw new RangeError('neither a number nor a day nor a boolean');
  return value;
}

function wholeNumber(value: number): string {
  if (!Number.isSafeInteger(value) || value < 1) throw new RangeError('not a whole number above 0');
  return String(value);
}
