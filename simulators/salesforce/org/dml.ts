import { ApiError, notFound } from './api-error.ts';
import { toId15 } from './ids.ts';
import { type Body, type Changes, type InterpretOptions, interpretBody } from './interpret.ts';
import type { EmptiedLookup, Org } from './org.ts';
import type { Field, ObjectType, Row, Value } from './schema.ts';

type Draft = Record<string, Value | undefined> & { Id: string };

function checkRequired(type: ObjectType, row: Row): void {
  const missing: string[] = [];
  for (const field of type.fields.values()) {
    if (field.required && row[field.name] === undefined) missing.push(field.name);
  }
  if (missing.length > 0) {
    throw new ApiError(
      400,
      'REQUIRED_FIELD_MISSING',
      `Required fields are missing: [${missing.join(', ')}]`,
      missing,
    );
  }
}

/** The message names the other record by its 15-character id, as an org does. */
function checkUnique(org: Org, type: ObjectType, row: Row): void {
  for (const field of type.fields.values()) {
    const value = row[field.name];
    if (!field.unique || value === undefined) continue;
    const other = org.store.find(type, field, value).find((found) => found.Id !== row.Id);
    if (other === undefined) continue;
    const where = `${field.name} duplicates value on record with id: ${other.Id.slice(0, 15)}`;
    throw new ApiError(400, 'DUPLICATE_VALUE', `duplicate value found: ${where}`, []);
  }
}

/** All checks come before the first change, so a record is written whole or not at all. */
function save(org: Org, type: ObjectType, before: Row | undefined, draft: Draft): Row {
  checkRequired(type, draft);
  checkUnique(org, type, draft);
  const refusal = org.guard(type, draft);
  if (refusal !== undefined) throw refusal;
  // Absent rather than undefined: JSON lines and memory then hold only what is set.
  const row = Object.fromEntries(
    Object.entries(draft).filter(([, value]) => value !== undefined),
  ) as unknown as Row;
  org.store.write(type, before, row);
  return row;
}

function assign(draft: Draft, changes: Changes): void {
  for (const [field, value] of changes) draft[field.name] = value;
}

function refuseReadOnlyObject(type: ObjectType): void {
  if (type.writeable) return;
  throw new ApiError(
    400,
    'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY',
    `entity type cannot be inserted: ${type.label}`,
    [],
  );
}

function newDraft(org: Org, type: ObjectType): Draft {
  const now = org.now();
  const draft: Draft = { Id: '' };
  for (const field of type.fields.values()) {
    if (field.defaultValue !== undefined) draft[field.name] = field.defaultValue;
  }
  draft.OwnerId = org.user.id;
  draft.CreatedById = org.user.id;
  draft.LastModifiedById = org.user.id;
  draft.CreatedDate = now;
  draft.LastModifiedDate = now;
  draft.SystemModstamp = now;
  return draft;
}

function numberDraft(org: Org, type: ObjectType, draft: Draft): void {
  if (draft.Id === '') draft.Id = org.nextId(type);
  for (const field of type.fields.values()) {
    if (field.autoNumberFormat !== undefined) draft[field.name] ??= org.nextAutoNumber(type, field);
  }
}

/**
 * Creates a record; `raw` as in `InterpretOptions`.
 * @throws ApiError for each rule that the body breaks.
 */
export function insertRow(org: Org, type: ObjectType, body: Body, more: { raw?: boolean } = {}): Row {
  refuseReadOnlyObject(type);
  const options: InterpretOptions = { mode: 'create', ...more };
  const changes = interpretBody(org, type, body, options);
  const draft = newDraft(org, type);
  assign(draft, changes);
  numberDraft(org, type, draft);
  if (more.raw === true && !changes.has(fieldOf(type, 'SystemModstamp')))
    draft.SystemModstamp = draft.LastModifiedDate;
  return org.store.transaction(() => save(org, type, undefined, draft));
}

function fieldOf(type: ObjectType, name: string): Field {
  const field = type.fields.get(name.toLowerCase());
  if (field === undefined) throw new Error(`${type.name} has no ${name}`);
  return field;
}

/** Changes the given fields of a record and stamps it. */
export function updateRow(
  org: Org,
  type: ObjectType,
  row: Row,
  body: Body,
  more: { raw?: boolean } = {},
): Row {
  refuseReadOnlyObject(type);
  const changes = interpretBody(org, type, body, { mode: 'update', ...more });
  const now = org.now();
  const draft: Draft = { ...row, LastModifiedDate: now, SystemModstamp: now, LastModifiedById: org.user.id };
  assign(draft, changes);
  return org.store.transaction(() => save(org, type, row, draft));
}

/** Puts a record into the recycle bin and empties every lookup to it (delete constraint SetNull, the only one simulated). */
export function deleteRow(org: Org, type: ObjectType, row: Row): void {
  refuseReadOnlyObject(type);
  const refusal = org.guard(type, row);
  if (refusal !== undefined) throw refusal;
  org.store.transaction(() => {
    const now = org.now();
    org.store.write(type, row, { ...row, IsDeleted: true, LastModifiedDate: now, SystemModstamp: now });
    org.emptied.set(
      row.Id,
      org.schema.objects.flatMap((child) => clearLookups(org, child, type, row.Id)),
    );
  });
}

/** Takes a record out of the recycle bin, and fills the lookups to it again that are still empty; no child is stamped. */
export function undeleteRow(org: Org, type: ObjectType, dead: Row): void {
  const now = org.now();
  const draft: Draft = { ...dead, IsDeleted: false, LastModifiedDate: now, SystemModstamp: now };
  org.store.transaction(() => {
    save(org, type, dead, draft);
    for (const { child, id, field } of org.emptied.get(dead.Id) ?? []) {
      const row = org.store.get(child, toId15(id) ?? '');
      if (row?.[field] === undefined && row) org.store.write(child, row, { ...row, [field]: dead.Id });
    }
  });
}

/** Returns what it has emptied. */
function clearLookups(org: Org, child: ObjectType, type: ObjectType, id: string): EmptiedLookup[] {
  const fields = [...child.fields.values()].filter(({ referenceTo }) => referenceTo === type.name);
  return fields.flatMap((field) =>
    org.store.find(child, field, id).map((row) => {
      const { [field.name]: _cleared, ...rest } = row;
      org.store.write(child, row, rest as Row);
      return { child, id: row.Id, field: field.name };
    }),
  );
}

/**
 * The record with this id.
 * @throws ApiError MALFORMED_ID for what is no id of that object, 404 ENTITY_IS_DELETED for a deleted one, and
 *   `unknown` (default 404 NOT_FOUND) for an id that was never given out.
 */
export function getRow(org: Org, type: ObjectType, id: string, unknown: ApiError = notFound()): Row {
  const id15 = toId15(id);
  if (id15?.startsWith(type.keyPrefix) !== true) {
    throw new ApiError(400, 'MALFORMED_ID', `${type.label} ID: id value of incorrect type: ${id}`, ['Id']);
  }
  const row = org.store.get(type, id15);
  if (row !== undefined) return row;
  if (org.store.table(type).deleted.has(id15))
    throw new ApiError(404, 'ENTITY_IS_DELETED', 'entity is deleted', []);
  throw unknown;
}
