import type { Call } from '../platform/base/call.ts';
import { resourceKey } from '../records/members.ts';
import {
  type RecordKey,
  type RecordList,
  type RecordPage,
  type StoredRecord,
  startPage,
} from '../records/records.ts';
import type { Resource } from '../records/resource.ts';
import {
  frameDepth,
  readComposite,
  readTogether,
  requireSuccess,
  toComposite,
  unusable,
} from './batching/composite.ts';
import { byKey, deletedFirst, queryPath, readPage, toPart } from './batching/find.ts';
import { isTooMuch } from './failure.ts';
import type { CrmRow } from './mapping/records.ts';
import type { CrmAnswer, CrmRequest, Part } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import type { TakeRow } from './rest/row-stream.ts';
import { findQuery, pageQuery, type RowsQuery } from './soql/query.ts';
import {
  failureIn,
  type NamedColumns,
  sendUsable,
  type UsableColumns,
  type UsedOfAll,
  usedOf,
} from './usable-columns.ts';

/* Records of several resources in one metered call, which is a Composite call with a query for each resource. */

export interface ReadTogetherOptions {
  client: Pick<CrmClient, 'send' | 'dataPath'>;
  columnsOf: (resource: Resource) => UsableColumns;
  toRecordOf: (resource: Resource, used: Resource) => (row: CrmRow) => StoredRecord | undefined;
}

export function withColumns<T>(
  { columnsOf }: Pick<ReadTogetherOptions, 'columnsOf'>,
  named: readonly { resource: Resource; names: 'all' | readonly string[] }[],
  work: (used: UsedOfAll) => Promise<T>,
): Promise<T> {
  const byResource = Map.groupBy(named, ({ resource }) => resourceKey(resource));
  const all = [...byResource.values()].map((ones): NamedColumns => {
    const isAll = ones.some(({ names }) => names === 'all');
    const columns = columnsOf((ones[0] as (typeof ones)[0]).resource);
    return { columns, names: isAll ? 'all' : ones.flatMap(({ names }) => names) };
  });
  return sendUsable(all, work);
}

export interface NamedQuery {
  resource: Resource;
  query: RowsQuery;
}

export function queriesOf(keys: readonly RecordKey[], used: UsedOfAll, withDeleted = false): NamedQuery[] {
  const names = [...new Set(keys.map(({ resource }) => resource.name))];
  return names.flatMap((name) => {
    const own = keys.filter(({ resource }) => resource.name === name);
    const [first] = own;
    if (first === undefined) return [];
    const { resource } = usedOf(used, first.resource);
    const wanted = { keys: own.map(({ externalId }) => externalId.toLowerCase()), visible: 'all' as const };
    return [{ resource, query: findQuery(resource, [wanted], withDeleted) }];
  });
}

export function findTogether(
  options: ReadTogetherOptions,
  keys: readonly RecordKey[],
  call: Call,
): Promise<(StoredRecord | undefined)[]> {
  return withColumns(options, keys.map(toWhole), (used) => findInHalves(options, keys, { used, call }));
}

interface Reading {
  used: UsedOfAll;
  call: Call;
}

async function findInHalves(
  options: ReadTogetherOptions,
  keys: readonly RecordKey[],
  reading: Reading,
): Promise<(StoredRecord | undefined)[]> {
  try {
    return await findAtOnce(options, keys, reading);
  } catch (error) {
    const failure = failureIn(error);
    if (keys.length < 2 || failure === undefined || !isTooMuch(failure)) throw error;
    const middle = Math.ceil(keys.length / 2);
    const found = await findInHalves(options, keys.slice(0, middle), reading);
    return [...found, ...(await findInHalves(options, keys.slice(middle), reading))];
  }
}

async function findAtOnce(
  { client, toRecordOf }: ReadTogetherOptions,
  keys: readonly RecordKey[],
  { used, call }: Reading,
): Promise<(StoredRecord | undefined)[]> {
  const queries = queriesOf(keys, used, true);
  const parts = queries.map(({ query }) => toPart(client.dataPath, query));
  const answers = await readTogether(client, parts, { operation: 'mixed', records: keys.length }, call);
  const rows = new Map<string, ReadonlyMap<string, CrmRow>>();
  for (const [index, { resource }] of queries.entries()) {
    const found = await readPages(client, answers[index] as CrmAnswer, resource, call);
    rows.set(resource.name, byKey(resource, deletedFirst(found)));
  }
  return keys.map(({ resource, externalId }) => {
    const row = rows.get(resource.name)?.get(externalId.toLowerCase());
    return row && toRecordOf(resource, usedOf(used, resource).resource)(row);
  });
}

async function readPages(
  client: ReadTogetherOptions['client'],
  first: CrmAnswer,
  resource: Resource,
  call: Call,
): Promise<CrmRow[]> {
  const asked = { operation: 'mixed', effect: 'read', resource } as const;
  let { rows, next } = readPage(requireSuccess(first, asked), client.dataPath);
  while (next !== undefined) {
    const answer = await client.send({ ...asked, method: 'GET', path: next }, call);
    const page = readPage(answer, client.dataPath);
    if (page.rows.length === 0) throw unusable(asked);
    rows = [...rows, ...page.rows];
    next = page.next;
  }
  return rows;
}

export function listTogether(
  options: ReadTogetherOptions,
  lists: readonly RecordList[],
  call: Call,
): Promise<RecordPage[]> {
  return withColumns(options, lists.map(toWhole), (used) => readLists(options, lists, { used, call }));
}

/** Takes rows as they come, until a list is full by its bytes: the others are then asked for again, without it. */
async function readLists(
  options: ReadTogetherOptions,
  lists: readonly RecordList[],
  reading: Reading,
): Promise<RecordPage[]> {
  const { client } = options;
  let listings: Listing[] = [];
  const parts = lists.map((list) => toListPart(client.dataPath, list, reading));
  const request: CrmRequest = {
    ...{ operation: 'mixed', effect: 'read', records: parts.length },
    ...toComposite(client.dataPath, parts),
    frameDepth,
    takeRows: () => {
      listings = lists.map((list) => startListing(options, list, reading.used));
      return (row) => takeRow(listings, row);
    },
  };
  const answer = await client.send(request, reading.call);
  if (answer.body === undefined) return readOthers(options, { lists, listings }, reading);
  const answers = readComposite(answer, parts.length, request);
  return listings.map(({ resource, page }, index) => {
    const part = requireSuccess(answers[index] as CrmAnswer, { effect: 'read', resource });
    const { next } = readPage(part, client.dataPath);
    return { ...page, hasMore: page.hasMore || next !== undefined };
  });
}

/** Asks for the other lists again: the rest of the answer was not read, nor whether a query failed. */
async function readOthers(
  options: ReadTogetherOptions,
  { lists, listings }: { lists: readonly RecordList[]; listings: readonly Listing[] },
  reading: Reading,
): Promise<RecordPage[]> {
  const full = listings.findIndex(({ page }) => page.hasMore);
  const others = lists.toSpliced(full, 1);
  const pages = others.length === 0 ? [] : await readLists(options, others, reading);
  return pages.toSpliced(full, 0, (listings[full] as Listing).page);
}

function toListPart(dataPath: string, { resource, query }: RecordList, { used, call }: Reading): Part {
  const { filters, limit } = query;
  const visible = call.visible(resource.collection);
  const page = { filters, visible, limit: limit + 1, shaped: true };
  return { method: 'GET', path: queryPath(dataPath, pageQuery(usedOf(used, resource).resource, page)) };
}

interface Listing {
  resource: Resource;
  page: RecordPage;
  /** Refuses a row that there are no bytes for. */
  take: TakeRow;
}

function startListing(
  { toRecordOf }: ReadTogetherOptions,
  { resource, query }: RecordList,
  used: UsedOfAll,
): Listing {
  const toRecord = toRecordOf(resource, usedOf(used, resource).resource);
  const { page, add } = startPage(query);
  const take = (row: CrmRow) => {
    const record = toRecord(row);
    // No further row comes of a list that is full by number.
    return record === undefined || add(record.values) || page.records.length === query.limit;
  };
  return { resource, page, take };
}

function takeRow(listings: readonly Listing[], row: CrmRow): boolean {
  // An error's list of fields stands as deep as a row.
  if (Array.isArray(row)) return true;
  const { type } = (row['attributes'] ?? {}) as { type?: unknown };
  const listing = listings.find(
    ({ resource: { crmObject } }) => String(type).toLowerCase() === crmObject.toLowerCase(),
  );
  if (listing === undefined) throw unusable({ effect: 'read' });
  return listing.take(row);
}

function toWhole({ resource }: { resource: Resource }): { resource: Resource; names: 'all' } {
  return { resource, names: 'all' };
}
