import { ApiError, notFound } from './api-error.ts';
import { toId15 } from './ids.ts';
import { type Body, type Changes, interpretBody } from './interpret.ts';
import { type Operation, type Outcome, type Prepared, runOperation } from './operation.ts';
import { type EmptiedLookup, type Org, sees } from './org.ts';
import type { Draft, Field, ObjectType, Row } from './schema.ts';

interface WriteOptions {
  /** As `InterpretOptions`; the simulator's own writes are raw, and no trigger runs for them. */
  raw?: boolean;
  /** As in `Operation`. */
  allowDuplicates?: boolean;
}

function missingRequired(type: ObjectType, draft: Draft): string[] {
  const required = [...type.fields.values()].filter((field) => field.required);
  return required.filter(({ name }) => draft[name] === undefined).map(({ name }) => name);
}

/** The message names the other record by its 15-character id where the user sees it, as an org does. */
function checkUnique(org: Org, type: ObjectType, row: Row): void {
  for (const field of type.fields.values()) {
    const value = row[field.name];
    if (!field.unique || value === undefined) continue;
    const other = org.store.find(type, field, value).find((found) => found.Id !== row.Id);
    if (other === undefined) continue;
    const [name, id] = sees(org, type, other)
      ? [field.name, other.Id.slice(0, 15)]
      : ['<unknown>', '<unknown>'];
    const where = `${name} duplicates value on record with id: ${id}`;
    throw new ApiError(400, 'DUPLICATE_VALUE', `duplicate value found: ${where}`, []);
  }
}

/** All checks come before the first change, so a record is written whole or not at all. */
function save(org: Org, type: ObjectType, { before, draft }: Prepared): Row {
  checkUnique(org, type, draft);
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

function refuseReadOnlyObject(type: ObjectType, kind: 'inserted' | 'updated'): void {
  if (type.writeable) return;
  const message = `entity type cannot be ${kind}: ${type.label}`;
  throw new ApiError(400, 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', message, []);
}

function newDraft(org: Org, type: ObjectType): Draft {
  const now = org.now();
  const draft: Draft = { Id: '' };
  for (const field of type.fields.values()) {
    if (field.defaultValue !== undefined) draft[field.name] = field.defaultValue;
  }
  const recordType = type.recordTypes.find(({ isDefault }) => isDefault);
  if (recordType !== undefined) draft.RecordTypeId = recordType.id;
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
    if (field.fallsBackToId) draft[field.name] ??= draft.Id;
  }
}

function prepareInsert(org: Org, type: ObjectType, body: Body, { raw = false }: WriteOptions): Prepared {
  // Rights are those of the integration user, who does not write what is raw.
  if (!raw) refuseReadOnlyObject(type, 'inserted');
  const changes = interpretBody(org, type, body, { mode: 'create', raw });
  const draft = newDraft(org, type);
  assign(draft, changes);
  if (!raw && changes.has(type.fields.get('ownerid') as Field)) checkOwner(org, draft);
  numberDraft(org, type, draft);
  if (raw && !changes.has(fieldOf(type, 'SystemModstamp'))) draft.SystemModstamp = draft.LastModifiedDate;
  return { before: undefined, draft };
}

/** Who may own records: users who are active and work in the org, and queues. */
function checkOwner(org: Org, draft: Draft): void {
  const rowOf = (object: string) => {
    const type = org.schema.find(object);
    return type && org.store.get(type, toId15(String(draft.OwnerId)) ?? '');
  };
  const user = rowOf('User');
  const group = rowOf('Group');
  if (user?.IsActive === false)
    throw new ApiError(400, 'INACTIVE_OWNER_OR_USER', 'operation performed with inactive user', []);
  if (user?.UserType !== undefined && user.UserType !== 'Standard')
    throw new ApiError(
      400,
      'OP_WITH_INVALID_USER_TYPE_EXCEPTION',
      'operation performed with invalid user type',
      ['OwnerId'],
    );
  if (group !== undefined && group.Type !== 'Queue')
    throw new ApiError(400, 'INVALID_CROSS_REFERENCE_KEY', 'Owner ID: owner is no queue for this object', [
      'OwnerId',
    ]);
}

function fieldOf(type: ObjectType, name: string): Field {
  const field = type.fields.get(name.toLowerCase());
  if (field === undefined) throw new Error(`${type.name} has no ${name}`);
  return field;
}

function prepareUpdate(
  org: Org,
  type: ObjectType,
  row: Row,
  body: Body,
  { raw = false }: WriteOptions,
): Prepared {
  if (!raw) refuseReadOnlyObject(type, 'updated');
  const changes = interpretBody(org, type, body, { mode: 'update', raw });
  const now = org.now();
  const draft: Draft = { ...row, LastModifiedDate: now, SystemModstamp: now, LastModifiedById: org.user.id };
  assign(draft, changes);
  return { before: row, draft };
}

function prepareDelete(org: Org, type: ObjectType, row: Row): Prepared {
  if (!type.deletable) throw noAccess();
  const now = org.now();
  return { before: row, draft: { ...row, IsDeleted: true, LastModifiedDate: now, SystemModstamp: now } };
}

/** Into the recycle bin; empties every lookup to the record (delete constraint SetNull, the only one simulated). */
function bin(org: Org, type: ObjectType, { before, draft }: Prepared): Row {
  org.store.write(type, before, draft);
  org.emptied.set(
    draft.Id,
    org.schema.objects.flatMap((child) => clearLookups(org, child, type, draft.Id)),
  );
  return draft;
}

/** A request to write one record. */
export type WriteRequest =
  | { kind: 'Insert'; body: Body }
  | { kind: 'Update'; body: Body; find: () => Row }
  | { kind: 'Delete'; find: () => Row };

function prepare(org: Org, type: ObjectType, request: WriteRequest, options: WriteOptions): Prepared {
  if (request.kind === 'Insert') return prepareInsert(org, type, request.body, options);
  if (request.kind === 'Delete') return prepareDelete(org, type, request.find());
  return prepareUpdate(org, type, request.find(), request.body, options);
}

/**
 * Does the same kind of work to records of one object, at most 200, in one operation; `partial` as in `Operation`.
 * The outcomes are in the order of the requests.
 */
export function writeRows(
  org: Org,
  type: ObjectType,
  requests: readonly WriteRequest[],
  { partial = false, raw = false, allowDuplicates = false }: WriteOptions & { partial?: boolean },
): Outcome[] {
  const kind = requests[0]?.kind ?? 'Insert';
  const operation: Operation = {
    type,
    kind,
    partial,
    raw,
    allowDuplicates,
    write: (prepared) => (kind === 'Delete' ? bin : save)(org, type, prepared),
    required: (draft) => missingRequired(type, draft),
  };
  return runOperation(
    org,
    operation,
    requests.map((request) => () => prepare(org, type, request, { raw })),
  );
}

function writeRow(org: Org, type: ObjectType, request: WriteRequest, options: WriteOptions): Row {
  const [outcome] = writeRows(org, type, [request], options);
  if (outcome instanceof ApiError) throw outcome;
  return outcome as Row;
}

/**
 * Creates a record; `raw` as in `InterpretOptions`.
 * @throws ApiError for the rules that the body breaks, and for what triggers refuse.
 */
export function insertRow(org: Org, type: ObjectType, body: Body, options: WriteOptions = {}): Row {
  return writeRow(org, type, { kind: 'Insert', body }, options);
}

/** Changes the given fields of a record and stamps it. */
export function updateRow(org: Org, type: ObjectType, row: Row, body: Body, options: WriteOptions = {}): Row {
  return writeRow(org, type, { kind: 'Update', body, find: () => row }, options);
}

/** Puts a record into the recycle bin. */
export function deleteRow(org: Org, type: ObjectType, row: Row, options: WriteOptions = {}): void {
  writeRow(org, type, { kind: 'Delete', find: () => row }, options);
}

/** Takes a record out of the recycle bin, and fills the lookups to it again that are still empty; no child is stamped. */
export function undeleteRow(org: Org, type: ObjectType, dead: Row): void {
  const now = org.now();
  const draft: Draft = { ...dead, IsDeleted: false, LastModifiedDate: now, SystemModstamp: now };
  org.store.transaction(() => {
    save(org, type, { before: dead, draft });
    for (const { child, id, field } of org.emptied.get(dead.Id) ?? []) {
      const row = org.store.get(child, toId15(id) ?? '');
      if (row?.[field] === undefined && row) org.store.write(child, row, { ...row, [field]: dead.Id });
    }
  });
}

/** Returns what it has emptied. */
function clearLookups(org: Org, child: ObjectType, type: ObjectType, id: string): EmptiedLookup[] {
  const fields = [...child.all.values()].filter(({ referenceTo }) => referenceTo.includes(type.name));
  return fields.flatMap((field) =>
    org.store.find(child, field, id).map((row) => {
      const { [field.name]: _cleared, ...rest } = row;
      org.store.write(child, row, rest as Row);
      return { child, id: row.Id, field: field.name };
    }),
  );
}

/** The refusal of a change of a record that sharing hides from the user. */
export function noAccess(): ApiError {
  return new ApiError(403, 'INSUFFICIENT_ACCESS_OR_READONLY', 'insufficient access rights on object id', []);
}

/**
 * The record with this id.
 * @throws ApiError MALFORMED_ID for what is no id of that object, 404 ENTITY_IS_DELETED for a deleted one, and
 *   `unknown` (default 404 NOT_FOUND) for an id that was never given out; `hidden` for one that the user does not see.
 */
export function getRow(
  org: Org,
  type: ObjectType,
  id: string,
  unknown: ApiError = notFound(),
  hidden: ApiError = unknown,
): Row {
  const id15 = toId15(id);
  if (id15?.startsWith(type.keyPrefix) !== true) {
    throw new ApiError(400, 'MALFORMED_ID', `${type.label} ID: id value of incorrect type: ${id}`, ['Id']);
  }
  const row = org.store.get(type, id15);
  if (row !== undefined && !sees(org, type, row)) throw hidden;
  if (row !== undefined) return row;
  if (org.store.table(type).deleted.has(id15))
    throw new ApiError(404, 'ENTITY_IS_DELETED', 'entity is deleted', []);
  throw unknown;
}
