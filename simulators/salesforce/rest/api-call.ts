import { ApiError, invalidField, jsonParserError, notFound } from '../org/api-error.ts';
import { type Body, isPlainObject } from '../org/interpret.ts';
import type { Org } from '../org/org.ts';
import { type Field, findField, type ObjectType, type Row, showField } from '../org/schema.ts';
import type { CursorStore } from '../soql/cursors.ts';

/** One call of the data API, sent alone or as a subrequest. */
export interface ApiCall {
  method: string;
  /** `v62.0` as it stood in the path. */
  version: string;
  /** Decoded path segments after the version. */
  path: string[];
  query: URLSearchParams;
  /** The parsed body; undefined without one. */
  body: unknown;
  header(name: string): string | undefined;
}

export interface ApiAnswer {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

/** What every part of the data API works on. */
export interface ApiContext {
  org: Org;
  cursors: CursorStore;
  /** Rows in a page of a query, unless the caller asks for fewer. */
  pageSize(): number;
  baseUrl(): string;
  usage(): { used: number; limit: number };
  /** The error of an armed fault that strikes this part of a Composite call. */
  refusePart(part: ApiCall): ApiError | undefined;
}

export function findType(context: ApiContext, name: string): ObjectType {
  const type = context.org.schema.find(name);
  if (type === undefined) throw notFound();
  return type;
}

function methodNotAllowed(method: string, allowed: string[]): ApiError {
  const list = allowed.join(',');
  const message = `HTTP Method '${method}' not allowed. Allowed are ${list}`;
  return new ApiError(405, 'METHOD_NOT_ALLOWED', message, undefined, { Allow: allowed.join(', ') });
}

/** The handler for the call's method; HEAD is answered as GET without its body. */
export function pickMethod<T>(call: ApiCall, handlers: Record<string, T>): T {
  const handler = handlers[call.method === 'HEAD' ? 'GET' : call.method];
  if (handler === undefined) throw methodNotAllowed(call.method, Object.keys(handlers));
  return handler;
}

/** @throws ApiError JSON_PARSER_ERROR without a JSON object as body. */
export function bodyObject(call: ApiCall): Body {
  if (call.body === undefined) {
    throw jsonParserError('The HTTP entity body is required, but this request has no entity body.');
  }
  if (!isPlainObject(call.body))
    throw jsonParserError('A JSON object is expected as the body of this request');
  return call.body;
}

export function rowUrl(call: ApiCall, type: ObjectType, row: Row): string {
  return `/services/data/${call.version}/sobjects/${type.name}/${row.Id}`;
}

export function attributesOf(call: ApiCall, type: ObjectType, row: Row): { type: string; url: string } {
  return { type: type.name, url: rowUrl(call, type, row) };
}

/** The caller saves duplicates that a rule only warns of (REST guide, Duplicate Rule Header). */
export function allowsDuplicates(call: ApiCall): boolean {
  return /(^|[;,]\s*)allowSave\s*=\s*true\b/i.test(call.header('sforce-duplicate-rule-header') ?? '');
}

/** The named fields; all of them without names. @throws ApiError INVALID_FIELD for a name that is none. */
export function selectFields(type: ObjectType, names: string[] | undefined): Field[] {
  if (names === undefined) return [...type.fields.values()];
  return names.map((name) => {
    const field = findField(type, name.trim());
    if (field === undefined)
      throw invalidField(`No such column '${name.trim()}' on sobject of type ${type.name}`);
    return field;
  });
}

/** A record as the row resources show it: empty fields as null, and always its Id. */
export function presentRow(call: ApiCall, type: ObjectType, row: Row, fields: Field[]): Body {
  const shown: Body = { attributes: attributesOf(call, type, row) };
  for (const field of fields) shown[field.name] = showField(row, field) ?? null;
  shown.Id = row.Id;
  return shown;
}
