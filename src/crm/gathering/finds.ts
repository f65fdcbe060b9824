import type { StoredRecord } from '../../resources/records.ts';
import type { Resource } from '../../resources/resource.ts';
import { type CrmRow, readKey } from '../mapping/records.ts';
import type { CrmRequest } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { findManyQuery, findQuery } from '../soql/query.ts';
import { readComposite, requireSuccess, toComposite } from './composite.ts';
import type { Operation } from './operation.ts';
import { readRows } from './rows.ts';

export interface OperationOptions {
  resource: Resource;
  client: Pick<CrmClient, 'sendGathered' | 'dataPath'>;
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
  const { resource, client, toRecord } = options;
  return {
    name: 'find',
    effect: 'read',
    size: () => 0,
    async carryOut(items, call) {
      let request: CrmRequest | undefined;
      let inBody = false;
      const draft = () => {
        if (request !== undefined) return request;
        const keys = [...new Set(items())];
        const [key] = keys;
        const soql =
          keys.length === 1 && key !== undefined ? findQuery(resource, key) : findManyQuery(resource, keys);
        const path = `${client.dataPath}/query?q=${encodeURIComponent(soql)}`;
        inBody = path.length > longestPath;
        const get = { method: 'GET', path } as const;
        const part = inBody ? toComposite(client.dataPath, [get]) : get;
        request = { operation: 'query', effect: 'read', resource, records: keys.length, ...part };
        return request;
      };
      const answer = await client.sendGathered(draft, call);
      const [page = answer] = inBody ? readComposite(answer, 1, draft()) : [];
      const rows = await readRows(client, requireSuccess(page, draft()), draft(), call);
      const found = byKey(resource, rows);
      const records = new Map([...found].map(([key, row]) => [key, toRecord(row)]));
      return items().map((key) => ({ result: records.get(key) }));
    },
  };
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
