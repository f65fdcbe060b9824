import { ApiError, jsonParserError, notFound } from '../org/api-error.ts';
import { getRow, noAccess, type WriteRequest, writeRows } from '../org/dml.ts';
import { type Body, isPlainObject } from '../org/interpret.ts';
import type { Outcome } from '../org/operation.ts';
import type { ObjectType, Row } from '../org/schema.ts';
import {
  type ApiAnswer,
  type ApiCall,
  type ApiContext,
  allowsDuplicates,
  bodyObject,
  pickMethod,
} from './api-call.ts';

const MAX_RECORDS = 200;
const MAX_CHUNKS = 10;

interface ItemResult {
  id?: string;
  success: boolean;
  errors: object[];
}

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

/** Consecutive records of one type: one operation of the org. */
interface Run {
  type: ObjectType;
  requests: WriteRequest[];
}

/** Mixed types are taken in runs of one type, and only so many runs (sObject Collections, Create). */
function toRuns(items: readonly { type: ObjectType; request: WriteRequest }[]): Run[] {
  const runs: Run[] = [];
  for (const { type, request } of items) {
    const last = runs.at(-1);
    if (last?.type === type) last.requests.push(request);
    else runs.push({ type, requests: [request] });
  }
  if (runs.length <= MAX_CHUNKS) return runs;
  const message = `Cannot have more than ${MAX_CHUNKS} chunks in a single operation. Please rearrange the data to reduce chunking.`;
  throw new ApiError(400, 'LIMIT_EXCEEDED', message);
}

function toItem(context: ApiContext, outcome: Outcome): ItemResult {
  if (!(outcome instanceof ApiError)) return { success: true, errors: [], id: outcome.Id };
  // A value that can't be parsed fails the whole body.
  if (outcome.errorCode === 'JSON_PARSER_ERROR') throw outcome;
  return { success: false, errors: outcome.toItemErrors(context.org.language) };
}

function rolledBack(item: ItemResult): ItemResult {
  return item.success ? { ...item, success: false, errors: [ROLLED_BACK] } : item;
}

/** 200 in every case, results in the order of the request (sObject Collections). */
function writeRuns(context: ApiContext, call: ApiCall, runs: Run[], allOrNone: boolean): ApiAnswer {
  const allowDuplicates = allowsDuplicates(call);
  const { org } = context;
  const { store } = org;
  const body = store.transaction(() => {
    const start = store.savepoint();
    const outcomes = runs.flatMap(({ type, requests }) =>
      writeRows(org, type, requests, { partial: !allOrNone, allowDuplicates }),
    );
    const results = outcomes.map((outcome) => toItem(context, outcome));
    if (!allOrNone || results.every((item) => item.success)) return results;
    store.rollback(start);
    return results.map(rolledBack);
  });
  return { status: 200, body };
}

function createMany(context: ApiContext, call: ApiCall): ApiAnswer {
  const { records, allOrNone } = readRecords(call);
  const items = records.map((body) => {
    return { type: typeOf(context, body), request: { kind: 'Insert', body } as const };
  });
  return writeRuns(context, call, toRuns(items), allOrNone);
}

function unknownId(): ApiError {
  return new ApiError(400, 'INVALID_CROSS_REFERENCE_KEY', 'invalid cross reference id', []);
}

function updateRequest(context: ApiContext, type: ObjectType, record: Body): WriteRequest {
  const { id: lower, Id: upper, ...body } = record;
  const id = lower ?? upper;
  const find = (): Row => {
    if (typeof id === 'string') return getRow(context.org, type, id, unknownId(), noAccess());
    throw new ApiError(400, 'MISSING_ARGUMENT', 'Id not specified in an update call', []);
  };
  return { kind: 'Update', body, find };
}

function updateMany(context: ApiContext, call: ApiCall): ApiAnswer {
  const { records, allOrNone } = readRecords(call);
  const items = records.map((record) => {
    const type = typeOf(context, record);
    return { type, request: updateRequest(context, type, record) };
  });
  return writeRuns(context, call, toRuns(items), allOrNone);
}

function deleteMany(context: ApiContext, call: ApiCall): ApiAnswer {
  const ids = (call.query.get('ids') ?? '').split(',').filter((id) => id !== '');
  const { objects } = context.org.schema;
  const [first] = objects;
  if (ids.length === 0 || first === undefined) throw invalidInput('ids is required');
  checkCount(ids.length);
  let type = first;
  const items = ids.map((id) => {
    const named = objects.find((object) => id.startsWith(object.keyPrefix));
    // An id of no known object belongs to the run of the id before it.
    type = named ?? type;
    const ofType = type;
    const find = (): Row => {
      if (named === undefined) throw new ApiError(400, 'MALFORMED_ID', `malformed id ${id}`, []);
      return getRow(context.org, ofType, id, unknownId(), noAccess());
    };
    return { type, request: { kind: 'Delete', find } as const };
  });
  return writeRuns(context, call, toRuns(items), call.query.get('allOrNone') === 'true');
}

/** `/composite/sobjects`. */
export function handleCollections(context: ApiContext, call: ApiCall): ApiAnswer {
  if (call.path[2] !== undefined) throw notFound();
  const handle = pickMethod(call, { POST: createMany, PATCH: updateMany, DELETE: deleteMany });
  return handle(context, call);
}
