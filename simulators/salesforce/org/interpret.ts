import { ApiError, invalidField, jsonParserError } from './api-error.ts';
import { toId15 } from './ids.ts';
import { findKeyField, type Org, sees } from './org.ts';
import { type Field, findField, findRelationship, type ObjectType, type Value } from './schema.ts';
import { coerceValue } from './values.ts';

export type Body = Record<string, unknown>;

/** Field by field what a body asks for; undefined clears the field. */
export type Changes = Map<Field, Value | undefined>;

export interface InterpretOptions {
  mode: 'create' | 'update';
  /** System and read-only fields may be set too; used for test data only. */
  raw?: boolean;
}

export function isPlainObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function wrongObject(field: Field, raw: string): ApiError {
  // A lookup that may lead to several objects is refused with another code (jsforce#1006).
  const code = field.referenceTo.length > 1 ? 'FIELD_INTEGRITY_EXCEPTION' : 'MALFORMED_ID';
  return new ApiError(400, code, `${field.label}: id value of incorrect type: ${raw}`, [field.name]);
}

/**
 * The stored, 18-character form of an id that a lookup is set to.
 * @throws ApiError MALFORMED_ID for what is no id of its object, INVALID_CROSS_REFERENCE_KEY where there is no record.
 */
function resolveId(org: Org, field: Field, raw: string): string {
  const targets = field.referenceTo.flatMap((name) => org.schema.find(name) ?? []);
  if (targets.length === 0) return raw;
  const id15 = toId15(raw);
  const target = targets.find(({ keyPrefix }) => id15?.startsWith(keyPrefix));
  if (id15 === undefined || target === undefined) throw wrongObject(field, raw);
  const row = org.store.get(target, id15);
  if (row === undefined || !sees(org, target, row))
    throw new ApiError(400, 'INVALID_CROSS_REFERENCE_KEY', 'invalid cross reference id', []);
  return row.Id;
}

/** @throws ApiError for an id that is no record type of this object, or one that the user may not use. */
function resolveRecordType(type: ObjectType, field: Field, raw: string): string {
  const id15 = toId15(raw);
  const found = type.recordTypes.find(({ id }) => id.slice(0, 15) === id15);
  if (found?.available) return found.id;
  const message = `${field.label}: this ID value isn't valid for the user: ${raw}`;
  throw new ApiError(400, 'INVALID_CROSS_REFERENCE_KEY', message, [field.name]);
}

function findParentKey(target: ObjectType, relationship: string, given: Body): [Field, unknown] {
  if ('type' in given) {
    const what = 'Cannot deserialize instance of <unknown> from FIELD_NAME value type';
    throw jsonParserError(`${what} or request may be missing a required field`);
  }
  const entries = Object.entries(given).filter(([name]) => name !== 'attributes');
  const [entry] = entries;
  if (entry === undefined || entries.length > 1) {
    throw invalidField(`The relationship ${relationship} needs exactly one external id field`);
  }
  const field = findKeyField(target, entry[0]);
  if (field === undefined) {
    throw invalidField(`No such column '${entry[0]}' on sobject of type ${target.name}`);
  }
  return [field, entry[1]];
}

/** A parent named by its own external id, `"Member__r": {"External_Id__c": "…"}` (REST guide, Upsert, relationships). */
function resolveParent(org: Org, type: ObjectType, lookup: Field, given: Body): string {
  const [name = '', ...others] = lookup.referenceTo;
  const target = others.length === 0 ? org.schema.find(name) : undefined;
  if (target === undefined) throw invalidField(`${lookup.name} can't be set by an external id`);
  const relationship = lookup.relationshipName ?? type.name;
  const [keyField, raw] = findParentKey(target, relationship, given);
  const value = coerceValue(keyField, raw);
  const missing = `Foreign key external ID: ${String(raw)} not found for field ${keyField.name} in entity ${target.name}`;
  if (value === undefined) throw invalidField(missing, []);
  if (keyField.type === 'id') return resolveId(org, lookup, String(value));
  const rows = org.store.find(target, keyField, value).filter((each) => sees(org, target, each));
  const [row] = rows;
  if (row === undefined) throw invalidField(missing, []);
  if (rows.length > 1) {
    throw invalidField(
      `More than one record found for external id field: [${rows.map((each) => each.Id).join(', ')}]`,
    );
  }
  return row.Id;
}

function interpretRelationship(
  org: Org,
  type: ObjectType,
  name: string,
  raw: unknown,
): [Field, Value | undefined] {
  const lookup = findRelationship(type, name);
  if (lookup === undefined) throw invalidField(`No such column '${name}' on sobject of type ${type.name}`);
  if (raw === null) return [lookup, undefined];
  if (!isPlainObject(raw))
    throw jsonParserError(`Cannot deserialize ${name}: an object with one external id is expected`);
  return [lookup, resolveParent(org, type, lookup, raw)];
}

function interpretField(org: Org, type: ObjectType, field: Field, raw: unknown): Value | undefined {
  const value = coerceValue(field, raw);
  if (field.type !== 'reference' || value === undefined) return value;
  if (field.name === 'RecordTypeId') return resolveRecordType(type, field, String(value));
  return resolveId(org, field, String(value));
}

function isWriteable(field: Field, options: InterpretOptions): boolean {
  if (options.raw === true) return field.compute === undefined;
  return options.mode === 'create' ? field.createable : field.updateable;
}

function readOnly(names: string[]): ApiError {
  const message = `Unable to create/update fields: ${names.join(', ')}. Please check the security settings of this field and verify that it is read/write for your profile or permission set.`;
  return new ApiError(400, 'INVALID_FIELD_FOR_INSERT_UPDATE', message, names);
}

/** Sets a field once: the id of a parent and its external id may not both be given. */
function setChange(changes: Changes, field: Field, value: Value | undefined, name: string): void {
  if (changes.has(field)) throw bothReferences(field.relationshipName ?? name, field);
  changes.set(field, value);
}

/**
 * Reads a request body into changes of fields.
 * @throws ApiError for an unknown or read-only field, a value of the wrong type, a parent that is not there.
 */
export function interpretBody(org: Org, type: ObjectType, body: Body, options: InterpretOptions): Changes {
  const changes: Changes = new Map();
  const refused: string[] = [];
  for (const [name, raw] of Object.entries(body)) {
    if (name === 'attributes') continue;
    const field = findField(type, name);
    if (field === undefined) {
      setChange(changes, ...interpretRelationship(org, type, name, raw), name);
    } else if (field.type === 'id') {
      throw invalidField(`The ${field.name} field should not be specified in the sobject data.`);
    } else if (isWriteable(field, options)) {
      setChange(changes, field, interpretField(org, type, field, raw), name);
    } else {
      refused.push(field.name);
    }
  }
  if (refused.length > 0) throw readOnly(refused);
  return changes;
}

function bothReferences(relationship: string, field: Field): ApiError {
  return invalidField(
    `cannot specify both an external ID reference ${relationship} and a salesforce id, ${field.name}`,
  );
}
