import { ApiError, notFound } from '../org/api-error.ts';
import { deleteRow, getRow, insertRow, noAccess, updateRow } from '../org/dml.ts';
import type { ObjectType, Row } from '../org/schema.ts';
import {
  type ApiAnswer,
  type ApiCall,
  type ApiContext,
  allowsDuplicates,
  bodyObject,
  findType,
  pickMethod,
  presentRow,
  rowUrl,
  selectFields,
} from './api-call.ts';
import { describeGlobal, describeObject } from './describe.ts';

function create(context: ApiContext, call: ApiCall, type: ObjectType): ApiAnswer {
  const row = insertRow(context.org, type, bodyObject(call), {
    allowDuplicates: allowsDuplicates(call),
  });
  const headers = { Location: rowUrl(call, type, row) };
  return { status: 201, body: { id: row.Id, success: true, errors: [] }, headers };
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
      const row = getRow(context.org, type, id, unknownForWrite(), noAccess());
      updateRow(context.org, type, row, bodyObject(call), { allowDuplicates: allowsDuplicates(call) });
      return { status: 204 };
    },
    DELETE: () => {
      deleteRow(context.org, type, getRow(context.org, type, id, unknownForWrite(), noAccess()));
      return { status: 204 };
    },
  });
  return handle();
}

function subResource(context: ApiContext, call: ApiCall, type: ObjectType, name: string): ApiAnswer {
  if (name === 'describe') return pickMethod(call, { GET: () => describeObject(context, call, type) })();
  return rowById(context, call, type, name);
}

/** `/sobjects` and everything below it. */
export function handleSobjects(context: ApiContext, call: ApiCall): ApiAnswer {
  const [, objectName, name, ...rest] = call.path;
  if (objectName === undefined) return pickMethod(call, { GET: () => describeGlobal(context, call) })();
  if (rest.length > 0) throw notFound();
  const type = findType(context, objectName);
  if (name !== undefined) return subResource(context, call, type, name);
  return pickMethod(call, { POST: () => create(context, call, type) })();
}
