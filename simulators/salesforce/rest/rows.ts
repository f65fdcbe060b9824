import { ApiError, notFound } from '../org/api-error.ts';
import { deleteRow, findByKey, getRow, insertRow, updateRow } from '../org/dml.ts';
import { findKeyField } from '../org/org.ts';
import type { Field, ObjectType, Row } from '../org/schema.ts';
import {
  type ApiAnswer,
  type ApiCall,
  type ApiContext,
  bodyObject,
  findType,
  pickMethod,
  presentRow,
  rowUrl,
  selectFields,
  versionNumber,
} from './api-call.ts';
import { describeGlobal, describeObject, objectBasics } from './describe.ts';

/** From this version on an upsert answers with `created`, and an update with 200 and a body (Upsert, dome_upsert). */
const UPSERT_BODY_VERSION = 46;

function saved(call: ApiCall, type: ObjectType, row: Row, more: object = {}): ApiAnswer {
  const headers = { Location: rowUrl(call, type, row) };
  return { status: 201, body: { id: row.Id, success: true, errors: [], ...more }, headers };
}

function create(context: ApiContext, call: ApiCall, type: ObjectType): ApiAnswer {
  return saved(call, type, insertRow(context.org, type, bodyObject(call)));
}

function show(call: ApiCall, type: ObjectType, row: Row): ApiAnswer {
  const names = call.query.get('fields')?.split(',');
  return { status: 200, body: presentRow(call, type, row, selectFields(type, names)) };
}

function unknownForWrite(): ApiError {
  return new ApiError(404, 'INVALID_CROSS_REFERENCE_KEY', 'invalid cross reference id', []);
}

function rowById(context: ApiContext, call: ApiCall, type: ObjectType, id: string): ApiAnswer {
  const handle = pickMethod<() => ApiAnswer>(call, {
    GET: () => show(call, type, getRow(context.org, type, id)),
    PATCH: () => {
      const row = getRow(context.org, type, id, unknownForWrite());
      updateRow(context.org, type, row, bodyObject(call));
      return { status: 204 };
    },
    DELETE: () => {
      deleteRow(context.org, type, getRow(context.org, type, id, unknownForWrite()));
      return { status: 204 };
    },
  });
  return handle();
}

/** 300 with the URLs of all candidates: nothing is read or written while the key is not unique. */
function severalMatches(call: ApiCall, type: ObjectType, rows: Row[]): ApiAnswer {
  return { status: 300, body: rows.map((row) => rowUrl(call, type, row)) };
}

function updateMatch(context: ApiContext, call: ApiCall, type: ObjectType, row: Row, key: Field): ApiAnswer {
  updateRow(context.org, type, row, bodyObject(call), { key });
  if (versionNumber(call) < UPSERT_BODY_VERSION) return { status: 204 };
  return { status: 200, body: { id: row.Id, success: true, errors: [], created: false } };
}

/** 404 for `updateOnly` without a match is the safe guess: the documentation does not name the status. */
function insertMissing(
  context: ApiContext,
  call: ApiCall,
  type: ObjectType,
  key: Field,
  keyValue: string,
): ApiAnswer {
  if (call.query.get('updateOnly') === 'true') throw notFound();
  const row = insertRow(context.org, type, bodyObject(call), { key, keyValue });
  return saved(call, type, row, versionNumber(call) < UPSERT_BODY_VERSION ? {} : { created: true });
}

function rowByKey(
  context: ApiContext,
  call: ApiCall,
  type: ObjectType,
  key: Field,
  value: string,
): ApiAnswer {
  const rows = findByKey(context.org, type, key, value);
  const [row] = rows;
  if (rows.length > 1) return severalMatches(call, type, rows);
  const handle = pickMethod<() => ApiAnswer>(call, {
    GET: () => {
      if (row === undefined) throw notFound();
      return show(call, type, row);
    },
    PATCH: () =>
      row === undefined
        ? insertMissing(context, call, type, key, value)
        : updateMatch(context, call, type, row, key),
    DELETE: () => {
      if (row === undefined) throw notFound();
      deleteRow(context.org, type, row);
      return { status: 204 };
    },
  });
  return handle();
}

function byKey(context: ApiContext, call: ApiCall, type: ObjectType, name: string, value: string): ApiAnswer {
  const key = findKeyField(type, name);
  if (key === undefined) {
    throw notFound(`Provided external ID field does not exist or is not accessible: ${name}`);
  }
  return key.type === 'id' ? rowById(context, call, type, value) : rowByKey(context, call, type, key, value);
}

function objectResource(context: ApiContext, call: ApiCall, type: ObjectType): ApiAnswer {
  const handle = pickMethod<() => ApiAnswer>(call, {
    GET: () => ({ status: 200, body: objectBasics(context, call, type) }),
    POST: () => create(context, call, type),
  });
  return handle();
}

function subResource(context: ApiContext, call: ApiCall, type: ObjectType, name: string): ApiAnswer {
  if (name === 'describe') {
    return pickMethod(call, { GET: () => ({ status: 200, body: describeObject(context, call, type) }) })();
  }
  // `POST /sobjects/Obj/Id` is a plain create through the upsert resource (Upsert, dome_upsert).
  if (call.method === 'POST' && name.toLowerCase() === 'id') return create(context, call, type);
  return rowById(context, call, type, name);
}

/** `/sobjects` and everything below it. */
export function handleSobjects(context: ApiContext, call: ApiCall): ApiAnswer {
  const [, objectName, third, fourth, ...rest] = call.path;
  if (rest.length > 0) throw notFound();
  if (objectName === undefined) {
    return pickMethod(call, { GET: () => ({ status: 200, body: describeGlobal(context, call) }) })();
  }
  const type = findType(context, objectName);
  if (third === undefined) return objectResource(context, call, type);
  if (fourth === undefined) return subResource(context, call, type, third);
  return byKey(context, call, type, third, fourth);
}
