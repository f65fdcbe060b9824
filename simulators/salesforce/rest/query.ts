import { ApiError } from '../org/api-error.ts';
import { type Body, isPlainObject } from '../org/interpret.ts';
import { type Row, showField } from '../org/schema.ts';
import { parseSoql } from '../soql/parse.ts';
import { type FieldPath, followLookup } from '../soql/paths.ts';
import { malformedQuery } from '../soql/query-error.ts';
import { type QueryResult, runQuery } from '../soql/run.ts';
import { type ApiAnswer, type ApiCall, type ApiContext, attributesOf, pickMethod } from './api-call.ts';

/** Puts a parent's field where SOQL shows it: nested under each relationship, null where there is no parent. */
function addParentField(context: ApiContext, call: ApiCall, row: Row, path: FieldPath, into: Body): void {
  let current = row;
  let shown = into;
  for (const lookup of path.lookups) {
    const name = lookup.field.relationshipName ?? '';
    const parent = followLookup(context.org, current, lookup);
    if (parent === undefined) {
      shown[name] = null;
      return;
    }
    const known = shown[name];
    const nested: Body = isPlainObject(known)
      ? known
      : { attributes: attributesOf(call, lookup.target, parent) };
    shown[name] = nested;
    shown = nested;
    current = parent;
  }
  shown[path.field.name] = showField(current, path.field) ?? null;
}

function presentResult(context: ApiContext, call: ApiCall, result: QueryResult, row: Row): Body {
  const shown: Body = { attributes: attributesOf(call, result.type, row) };
  for (const { path } of result.columns) {
    if (path.lookups.length === 0) shown[path.field.name] = showField(row, path.field) ?? null;
    else addParentField(context, call, row, path, shown);
  }
  return shown;
}

/** Rows of a page at most, where a query selects two or more long custom fields (SOQL Reference, batch size). */
const LONG_TEXT_PAGE = 200;

function pageSize(context: ApiContext, call: ApiCall, { columns }: QueryResult): number {
  const longFields = columns.filter(({ path }) => path.field.long && path.field.custom).length;
  const most = longFields < 2 ? context.pageSize() : Math.min(context.pageSize(), LONG_TEXT_PAGE);
  const wanted = Number(/batchSize\s*=\s*(\d+)/i.exec(call.header('sforce-query-options') ?? '')?.[1]);
  return Number.isInteger(wanted) && wanted > 0 ? Math.min(wanted, most) : most;
}

/** @param known the locator of a cursor already open; one is opened when more than a page is left. */
function page(
  context: ApiContext,
  call: ApiCall,
  result: QueryResult,
  start: number,
  known?: string,
): ApiAnswer {
  const end = Math.min(start + pageSize(context, call, result), result.rows.length);
  const records = result.rows.slice(start, end).map((row) => presentResult(context, call, result, row));
  const totalSize = result.rows.length;
  if (end >= totalSize) return { status: 200, body: { totalSize, done: true, records } };
  const locator = known ?? context.cursors.open(result);
  const nextRecordsUrl = `/services/data/${call.version}/query/${locator}-${end}`;
  return { status: 200, body: { totalSize, done: false, nextRecordsUrl, records } };
}

function firstPage(context: ApiContext, call: ApiCall): ApiAnswer {
  const soql = call.query.get('q');
  if (soql === null || soql.trim() === '') throw malformedQuery('A query string has to be specified');
  const query = parseSoql(soql);
  const result = runQuery(context.org, query, call.path[0] === 'queryAll');
  if (query.count) return { status: 200, body: { totalSize: result.rows.length, done: true, records: [] } };
  return page(context, call, result, 0);
}

function nextPage(context: ApiContext, call: ApiCall, name: string): ApiAnswer {
  const [, locator = '', start = ''] = /^(\w+)-(\d+)$/.exec(name) ?? [];
  const result = context.cursors.find(locator);
  if (result === undefined) throw new ApiError(400, 'INVALID_QUERY_LOCATOR', 'invalid query locator');
  return page(context, call, result, Number(start), locator);
}

/** `/query?q=…` and `/query/<locator>`; `/queryAll` finds what is in the recycle bin too. */
export function handleQuery(context: ApiContext, call: ApiCall): ApiAnswer {
  const [, locator] = call.path;
  const read = (): ApiAnswer =>
    locator === undefined ? firstPage(context, call) : nextPage(context, call, locator);
  return pickMethod(call, { GET: read })();
}
