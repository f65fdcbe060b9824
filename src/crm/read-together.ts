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
import { readTogether, requireSuccess, unusable } from './batching/composite.ts';
import { byKey, deletedFirst, queryPath, readPage, toPart } from './batching/find.ts';
import type { CrmRow } from './mapping/records.ts';
import type { CrmAnswer, Part } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { findQuery, pageQuery, type RowsQuery } from './soql/query.ts';
import {
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
  const { client, toRecordOf } = options;
  return withColumns(options, keys.map(toWhole), async (used) => {
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
  const { client, toRecordOf } = options;
  const { dataPath } = client;
  return withColumns(options, lists.map(toWhole), async (used) => {
    const parts = lists.map(({ resource, query: { filters, limit } }): Part => {
      const visible = call.visible(resource.collection);
      const page = { filters, visible, limit: limit + 1, shaped: true };
      return { method: 'GET', path: queryPath(dataPath, pageQuery(usedOf(used, resource).resource, page)) };
    });
    const answers = await readTogether(client, parts, { operation: 'mixed' }, call);
    return lists.map(({ resource, query }, index) => {
      const answer = requireSuccess(answers[index] as CrmAnswer, { effect: 'read', resource });
      const { rows, next } = readPage(answer, dataPath);
      const toRecord = toRecordOf(resource, usedOf(used, resource).resource);
      const { page, add } = startPage(query);
      const isWhole = rows.every((row) => {
        const record = toRecord(row);
        return record === undefined || add(record.values);
      });
      return { ...page, hasMore: page.hasMore || !isWhole || next !== undefined };
    });
  });
}

function toWhole({ resource }: { resource: Resource }): { resource: Resource; names: 'all' } {
  return { resource, names: 'all' };
}
