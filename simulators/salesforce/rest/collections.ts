import { ApiError, jsonParserError, notFound } from '../org/api-error.ts';
import { deleteRow, getRow, insertRow, updateRow } from '../org/dml.ts';
import { type Body, isPlainObject } from '../org/interpret.ts';
import type { ObjectType } from '../org/schema.ts';
import { type ApiAnswer, type ApiCall, type ApiContext, bodyObject, pickMethod } from './api-call.ts';

const MAX_RECORDS = 200;
const MAX_CHUNKS = 10;

interface ItemResult {
  id?: string;
  success: boolean;
  errors: object[];
}

type ItemWork = () => { id: string };

const ROLLED_BACK = {
  statusCode: 'ALL_OR_NONE_OPERATION_ROLLED_BACK',
  message: 'Record rolled back because not all records were valid and the request was using AllOrNone header',
  fields: [],
};

function invalidInput(message: string): ApiError {
  return new ApiError(400, 'INVALID_INPUT', message);
}

function checkCount(count: number): void {
  if (count <= MAX_RECORDS) return;
  const message = `record limit reached. cannot submit more than ${MAX_RECORDS} records into this call`;
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

/** `/composite/sobjects`. */
export function handleCollections(context: ApiContext, call: ApiCall): ApiAnswer {
  if (call.path[2] !== undefined) throw notFound();
  const handle = pickMethod(call, { POST: createMany, PATCH: updateMany, DELETE: deleteMany });
  return handle(context, call);
}
