import type { StoredRecord } from '../../resources/records.ts';
import type { Resource } from '../../resources/resource.ts';
import { type CrmRow, readKey } from '../mapping/records.ts';
import type { BatchCall } from '../rest/limiter.ts';
import type { CrmAnswer, CrmRequest, Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { findManyQuery, findQuery } from '../soql/query.ts';
import { readComposite, requireSuccess, toComposite, unusable } from './composite.ts';
import type { Operation } from './execute.ts';

export interface OperationOptions {
  resource: Resource;
  client: Pick<CrmClient, 'execute' | 'dataPath'>;
  /** A row as the port shows it; undefined for one that the API does not have. */
  toRecord: (row: CrmRow) => StoredRecord | undefined;
}

/**
 * The CRM takes 16,384 bytes of URL and headers together, and a token may be long. A longer query goes into the body
 * of a Composite call, as the vendor advises.
 */
const longestPath = 12_000;

/** Looks records up by External ID, in lower case. */
export function createFind(options: OperationOptions): Operation<string, StoredRecord | undefined> {
  const { resource, toRecord } = options;
  return {
    name: 'find',
    effect: 'read',
    size: () => 0,
    async execute(items, call, permit) {
      const keys = [...new Set(items)];
      const rows = await queryRows(options, keysQuery(resource, keys), keys.length, call, permit);
      const found = byKey(resource, rows);
      const records = new Map([...found].map(([key, row]) => [key, toRecord(row)]));
      return items.map((key) => ({ result: records.get(key) }));
    },
  };
}

/** The query for records with these External IDs, at least one. */
export function keysQuery(resource: Resource, keys: readonly string[]): string {
  const [key = ''] = keys;
  return keys.length === 1 ? findQuery(resource, key) : findManyQuery(resource, keys);
}

/** All rows of a query for so many records: the CRM makes pages short where records are long. Throws `CrmFailure`. */
export async function queryRows(
  { client, resource }: Pick<OperationOptions, 'client' | 'resource'>,
  soql: string,
  records: number,
  call: BatchCall,
  permit?: Permit,
): Promise<CrmRow[]> {
  const { dataPath } = client;
  const query = { operation: 'query', effect: 'read', resource, method: 'GET' } as const;
  const request = { ...query, path: queryPath(dataPath, soql), records };
  const isTooLong = request.path.length > longestPath;
  const answer = await client.execute(isTooLong ? inBody(dataPath, request) : request, call, permit);
  let { rows, next } = readPage(answer, dataPath);
  while (next !== undefined) {
    const page = readPage(await client.execute({ ...query, path: next }, call), dataPath);
    if (page.rows.length === 0) throw unusable(query);
    rows = [...rows, ...page.rows];
    next = page.next;
  }
  return rows;
}

/** The same request as the only part of a Composite call. */
function inBody(dataPath: string, request: CrmRequest): CrmRequest {
  return {
    ...request,
    ...toComposite(dataPath, [request]),
    unwrap(answer) {
      const [part] = readComposite(answer, 1, request);
      return requireSuccess(part as CrmAnswer, request);
    },
  };
}

export function queryPath(dataPath: string, soql: string): string {
  return `${dataPath}/query?q=${encodeURIComponent(soql)}`;
}

/** The rows of a page, and the path of the next one where there is one. Throws `CrmFailure` for another shape. */
export function readPage(answer: CrmAnswer, dataPath: string): { rows: CrmRow[]; next: string | undefined } {
  const body = answer.body as { records?: unknown; done?: unknown; nextRecordsUrl?: unknown } | undefined;
  if (!Array.isArray(body?.records)) throw unusable({ effect: 'read' });
  if (body.done !== false) return { rows: body.records as CrmRow[], next: undefined };
  const next = body.nextRecordsUrl;
  // A path of the query resource and nothing else: the token goes with it.
  if (typeof next !== 'string' || !next.startsWith(`${dataPath}/query/`)) throw unusable({ effect: 'read' });
  return { rows: body.records as CrmRow[], next };
}

/** Rows by External ID in lower case; where the CRM has a key in both cases, the one in lower case. */
export function byKey(resource: Resource, rows: readonly CrmRow[]): Map<string, CrmRow> {
  const found = new Map<string, CrmRow>();
  for (const row of rows) {
    const key = readKey(resource, row);
    const lower = key.toLowerCase();
    if (key === lower || !found.has(lower)) found.set(lower, row);
  }
  return found;
}
