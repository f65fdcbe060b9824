import { ApiError, invalidField, jsonParserError } from '../org/api-error.ts';
import { deleteRow, findByKey, getRow, insertRow, updateRow } from '../org/dml.ts';
import { type Body, isPlainObject } from '../org/interpret.ts';
import { findKeyField } from '../org/org.ts';
import { type Field, foldFor, type ObjectType } from '../org/schema.ts';
import { coerceValue } from '../org/values.ts';
import {
  type ApiAnswer,
  type ApiCall,
  type ApiContext,
  bodyObject,
  findType,
  pickMethod,
  presentRow,
  selectFields,
} from './api-call.ts';

const MAX_RECORDS = 200;
const MAX_CHUNKS = 10;
const MAX_READ = 2000;

interface ItemResult {
  id?: string;
  success: boolean;
  errors: object[];
  created?: boolean;
}

type ItemWork = () => { id: string; created?: boolean };

const ROLLED_BACK = {
  statusCode: 'ALL_OR_NONE_OPERATION_ROLLED_BACK',
  message: 'Record rolled back because not all records were valid and the request was using AllOrNone header',
  fields: [],
};

function invalidInput(message: string): ApiError {
  return new ApiError(400, 'INVALID_INPUT', message);
}

function checkCount(count: number, maximum = MAX_RECORDS): void {
  if (count <= maximum) return;
  const message = `record limit reached. cannot submit more than ${maximum} records into this call`;
  throw new ApiError(400, 'EXCEEDED_ID_LIMIT', message);
}

function readRecords(call: ApiCall): { records: Body[]; allOrNone: boolean } {
  const body = bodyObject(call);
  if (!Array.isArray(body.records)) throw jsonParserError('records must be an array');
  checkCount(body.records.length);
  if (!body.records.every(isPlainObject)) throw jsonParserError('each of records must be an object');
  return { records: body.records, allOrNone: body.allOrNone === true };
}

function typeOf(context: ApiContext, record: Body): ObjectType {
  const attributes = record.attributes;
  const name = isPlainObject(attributes) ? attributes.type : undefined;
  if (typeof name !== 'string') throw invalidInput('attributes.type is required on each record');
  const type = context.org.schema.find(name);
  if (type === undefined) throw new ApiError(400, 'INVALID_TYPE', `sObject type '${name}' is not supported.`);
  return type;
}

/** Mixed types are taken in runs of one type, and only so many runs (sObject Collections, Create). */
function checkChunks(types: ObjectType[]): void {
  const chunks = types.filter((type, index) => type !== types[index - 1]).length;
  if (chunks <= MAX_CHUNKS) return;
  const message = `Cannot have more than ${MAX_CHUNKS} chunks in a single operation. Please rearrange the data to reduce chunking.`;
  throw new ApiError(400, 'LIMIT_EXCEEDED', message);
}

function runItem(work: ItemWork): ItemResult {
  try {
    return { success: true, errors: [], ...work() };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { success: false, errors: [error.toItem()] };
  }
}

function rolledBack(item: ItemResult): ItemResult {
  return item.success ? { ...item, success: false, errors: [ROLLED_BACK] } : item;
}

/** 200 in every case, results in the order of the request (sObject Collections). */
function runItems(context: ApiContext, works: ItemWork[], allOrNone: boolean): ApiAnswer {
  const { store } = context.org;
  const body = store.transaction(() => {
    const start = store.savepoint();
    const results = works.map(runItem);
    if (!allOrNone || results.every((item) => item.success)) return results;
    store.rollback(start);
    return results.map(rolledBack);
  });
  return { status: 200, body };
}

function createMany(context: ApiContext, call: ApiCall): ApiAnswer {
  const { records, allOrNone } = readRecords(call);
  const types = records.map((record) => typeOf(context, record));
  checkChunks(types);
  const works = records.map((record, index) => () => {
    return { id: insertRow(context.org, types[index] as ObjectType, record).Id };
  });
  return runItems(context, works, allOrNone);
}

function unknownId(): ApiError {
  return new ApiError(400, 'INVALID_CROSS_REFERENCE_KEY', 'invalid cross reference id', []);
}

function updateItem(context: ApiContext, type: ObjectType, record: Body): { id: string } {
  const { id: lower, Id: upper, ...rest } = record;
  const id = lower ?? upper;
  if (typeof id !== 'string')
    throw new ApiError(400, 'MISSING_ARGUMENT', 'Id not specified in an update call', []);
  const row = getRow(context.org, type, id, unknownId());
  return { id: updateRow(context.org, type, row, rest).Id };
}

function updateMany(context: ApiContext, call: ApiCall): ApiAnswer {
  const { records, allOrNone } = readRecords(call);
  const types = records.map((record) => typeOf(context, record));
  checkChunks(types);
  const works = records.map((record, index) => () => updateItem(context, types[index] as ObjectType, record));
  return runItems(context, works, allOrNone);
}

function splitKey(record: Body, key: Field): { text: string; rest: Body } {
  const name = Object.keys(record).find((each) => each.toLowerCase() === key.name.toLowerCase());
  const value = name === undefined ? undefined : coerceValue(key, record[name]);
  if (name === undefined || value === undefined) {
    throw new ApiError(400, 'MISSING_ARGUMENT', `${key.name} not specified`, [key.name]);
  }
  const { [name]: _key, ...rest } = record;
  return { text: String(value), rest };
}

function upsertItem(
  context: ApiContext,
  type: ObjectType,
  key: Field,
  record: Body,
): { id: string; created: boolean } {
  const { text, rest } = splitKey(record, key);
  if (key.type === 'id')
    return { id: updateRow(context.org, type, getRow(context.org, type, text), rest).Id, created: false };
  const rows = findByKey(context.org, type, key, text);
  const [row] = rows;
  if (row === undefined) {
    return { id: insertRow(context.org, type, rest, { key, keyValue: text }).Id, created: true };
  }
  if (rows.length > 1) {
    const ids = rows.map((each) => each.Id).join(', ');
    const message = `${key.name}: more than one record found for external id field: [${ids}]`;
    throw new ApiError(400, 'DUPLICATE_EXTERNAL_ID', message, [key.name]);
  }
  return { id: updateRow(context.org, type, row, rest, { key }).Id, created: false };
}

function foldedKey(record: Body, key: Field): unknown {
  const value = record[key.name];
  return typeof value === 'string' ? foldFor(key)(value) : value;
}

/** What an org does with one key twice in a call is not documented; a per-record refusal is the classic answer. */
function repeatedKeys(records: Body[], key: Field): Set<unknown> {
  const seen = new Set<unknown>();
  const repeated = new Set<unknown>();
  for (const record of records) {
    const value = foldedKey(record, key);
    if (value === undefined || value === null) continue;
    if (seen.has(value)) repeated.add(value);
    seen.add(value);
  }
  return repeated;
}

function upsertMany(context: ApiContext, call: ApiCall, type: ObjectType, key: Field): ApiAnswer {
  const { records, allOrNone } = readRecords(call);
  const mixed = records.find((record) => typeOf(context, record) !== type);
  if (mixed !== undefined) throw invalidInput(`all records of this call must be of type ${type.name}`);
  const repeated = repeatedKeys(records, key);
  const works = records.map((record) => () => {
    if (repeated.has(foldedKey(record, key))) {
      const message = `Duplicate external id specified: ${String(record[key.name])}`;
      throw new ApiError(400, 'DUPLICATE_VALUE', message, [key.name]);
    }
    return upsertItem(context, type, key, record);
  });
  return runItems(context, works, allOrNone);
}

function deleteMany(context: ApiContext, call: ApiCall): ApiAnswer {
  const ids = (call.query.get('ids') ?? '').split(',').filter((id) => id !== '');
  if (ids.length === 0) throw invalidInput('ids is required');
  checkCount(ids.length);
  const works = ids.map((id) => () => {
    const type = context.org.schema.objects.find((object) => id.startsWith(object.keyPrefix));
    if (type === undefined) throw new ApiError(400, 'MALFORMED_ID', `malformed id ${id}`, []);
    const row = getRow(context.org, type, id, unknownId());
    deleteRow(context.org, type, row);
    return { id: row.Id };
  });
  return runItems(context, works, call.query.get('allOrNone') === 'true');
}

/** null stands where an id is missing, invalid or of another object (sObject Collections, Retrieve). */
function readMany(
  context: ApiContext,
  call: ApiCall,
  type: ObjectType,
  ids: string[],
  names: string[],
): ApiAnswer {
  checkCount(ids.length, MAX_READ);
  const fields = selectFields(type, names);
  const body = ids.map((id) => {
    try {
      return presentRow(call, type, getRow(context.org, type, id), fields);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return null;
    }
  });
  return { status: 200, body };
}

function strings(value: unknown, name: string): string[] {
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string')) {
    throw invalidField(`${name} must be an array of strings`);
  }
  return value;
}

function typedCollection(context: ApiContext, call: ApiCall, type: ObjectType): ApiAnswer {
  const handle = pickMethod<() => ApiAnswer>(call, {
    GET: () => {
      const ids = call.query.get('ids')?.split(',') ?? [];
      return readMany(context, call, type, ids, call.query.get('fields')?.split(',') ?? []);
    },
    POST: () => {
      const body = bodyObject(call);
      return readMany(context, call, type, strings(body.ids, 'ids'), strings(body.fields, 'fields'));
    },
  });
  return handle();
}

/** `/composite/sobjects` and everything below it. */
export function handleCollections(context: ApiContext, call: ApiCall): ApiAnswer {
  const [, , objectName, keyName] = call.path;
  if (objectName === undefined) {
    const handle = pickMethod(call, { POST: createMany, PATCH: updateMany, DELETE: deleteMany });
    return handle(context, call);
  }
  const type = findType(context, objectName);
  if (keyName === undefined) return typedCollection(context, call, type);
  const key = findKeyField(type, keyName);
  if (key === undefined)
    throw invalidField(`Provided external ID field does not exist or is not accessible: ${keyName}`);
  return pickMethod(call, { PATCH: () => upsertMany(context, call, type, key) })();
}
