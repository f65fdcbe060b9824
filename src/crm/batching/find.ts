import type { Visible } from '../../platform/base/call.ts';
import { ownerField } from '../../records/created-by.ts';
import type { FieldValues, StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import type { CrmFailure } from '../failure.ts';
import { type CrmRow, readKey, readTimestamp } from '../mapping/records.ts';
import type { BatchCall, CrmAnswer, CrmRequest, Part, Permit } from '../rest/request.ts';
import { findQuery, type RowsQuery, toSoql, type WantedKeys } from '../soql/query.ts';
import type { UsedColumns } from '../usable-columns.ts';
import { readComposite, requireSuccess, toComposite, unusable } from './composite.ts';
import type { ItemOutcome } from './operation.ts';
import { ownerRefusal, RecordOperation, type RecordOperationOptions } from './record-operation.ts';

interface FindOptions extends RecordOperationOptions {
  withDeleted?: boolean;
  isAfterLoss?: boolean;
}

/**
 * The CRM takes 16,384 bytes of URL and headers together, and a token may be long. A longer query goes into the body
 * of a Composite call, as the vendor advises.
 */
const longestPath = 12_000;

export interface Lookup {
  key: string;
  visible: Visible;
}

/**
 * Looks records up. Those of several consumers share one query, which asks for each one's own records by their owner; a
 * record that was asked for by several is given to those only that may see it.
 */
export class Find extends RecordOperation<Lookup, StoredRecord | undefined> {
  readonly name = 'find';
  readonly effect = 'read';
  readonly #withDeleted: boolean;
  readonly #isAfterLoss: boolean;

  constructor({ withDeleted = false, isAfterLoss = false, ...options }: FindOptions) {
    super(options);
    this.#withDeleted = withDeleted;
    this.#isAfterLoss = isAfterLoss;
  }

  size(): number {
    return 0;
  }

  protected override refusalOf({ visible }: Lookup, resource: Resource): CrmFailure | undefined {
    return ownerRefusal(resource, visible);
  }

  protected async send(
    lookups: readonly Lookup[],
    { resource }: UsedColumns,
    call: BatchCall,
    permit: Permit | undefined,
  ): Promise<ItemOutcome<StoredRecord | undefined>[]> {
    const { client, toRecordOf } = this.options;
    const query = findQuery(resource, groupByViewer(lookups), this.#withDeleted);
    const rows = await queryRows({ client, resource, isAfterLoss: this.#isAfterLoss }, query, call, permit);
    const toRecord = toRecordOf(resource);
    const records = new Map<string, StoredRecord | undefined>();
    for (const [key, row] of byKey(resource, this.#withDeleted ? deletedFirst(rows) : rows))
      records.set(key, toRecord(row));
    return lookups.map(({ key, visible }) => {
      const record = records.get(key);
      return { result: record && isVisible(record, visible) ? record : undefined };
    });
  }
}

/** Deleted records first, then by age: of those with the same key the existing one is left, or the newest. */
export function deletedFirst(rows: readonly CrmRow[]): readonly CrmRow[] {
  return rows.toSorted((a, b) => Number(isDeleted(b)) - Number(isDeleted(a)) || madeAt(a) - madeAt(b));
}

function madeAt(row: CrmRow): number {
  return Date.parse(readTimestamp(row['CreatedDate']) ?? '');
}

export function isDeleted(row: CrmRow): boolean {
  return row['IsDeleted'] === true;
}

function groupByViewer(items: readonly Lookup[]): WantedKeys[] {
  const groups = new Map<string, { keys: Set<string>; visible: Visible }>();
  for (const { key, visible } of items) {
    const viewer = visible === 'all' ? '' : visible.consumerId;
    const group = groups.get(viewer);
    if (group === undefined) groups.set(viewer, { keys: new Set([key]), visible });
    else group.keys.add(key);
  }
  return [...groups.values()].map(({ keys, visible }) => ({ keys: [...keys], visible }));
}

function isVisible({ values }: StoredRecord, visible: Visible): boolean {
  return visible === 'all' || values[ownerField] === visible.consumerId;
}

/** The member that records name, by External ID: the CRM locks it while it writes them. Undefined where it is not known. */
export function parentIn({ fields }: Pick<Resource, 'fields'>, values: FieldValues): string | undefined {
  const lookup = Object.entries(fields).find(([, { crm }]) => crm.lookupColumn !== undefined);
  return (lookup && values[lookup[0]])?.toLowerCase();
}

export function keysQuery(resource: Resource, keys: readonly string[]): RowsQuery {
  return findQuery(resource, [{ keys, visible: 'all' }]);
}

export async function queryRows(
  {
    client,
    resource,
    isAfterLoss,
  }: { client: RecordOperationOptions['client']; resource: Resource; isAfterLoss?: boolean },
  rowsQuery: RowsQuery,
  call: BatchCall,
  permit?: Permit,
): Promise<CrmRow[]> {
  const { dataPath } = client;
  const query = { operation: 'query', effect: 'read', resource, method: 'GET' } as const;
  const { records } = rowsQuery;
  const request = { ...query, ...toPart(dataPath, rowsQuery), records, isAfterLoss };
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

export function toPart(dataPath: string, query: RowsQuery): Part & { method: 'GET'; query: RowsQuery } {
  return { method: 'GET', path: queryPath(dataPath, toSoql(query), query.withDeleted), query };
}

export function queryPath(dataPath: string, soql: string, withDeleted = false): string {
  return `${dataPath}/${withDeleted ? 'queryAll' : 'query'}?q=${encodeURIComponent(soql)}`;
}

export function readPage(answer: CrmAnswer, dataPath: string): { rows: CrmRow[]; next: string | undefined } {
  const body = answer.body as { records?: unknown; done?: unknown; nextRecordsUrl?: unknown } | undefined;
  if (!Array.isArray(body?.records)) throw unusable({ effect: 'read' });
  if (body.done !== false) return { rows: body.records as CrmRow[], next: undefined };
  const next = body.nextRecordsUrl;
  // A path of the query resource and nothing else: the token goes with it.
  if (typeof next !== 'string' || !next.startsWith(`${dataPath}/query/`)) throw unusable({ effect: 'read' });
  return { rows: body.records as CrmRow[], next };
}

export function byKey(resource: Resource, rows: readonly CrmRow[]): Map<string, CrmRow> {
  const found = new Map<string, CrmRow>();
  for (const row of rows) {
    const key = readKey(resource, row);
    const lower = key.toLowerCase();
    if (key === lower || !found.has(lower)) found.set(lower, row);
  }
  return found;
}
