import type { CrmRow } from '../mapping/records.ts';
import type { SharedCall } from '../rest/limiter.ts';
import type { CrmAnswer, CrmRequest } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { unusable } from './composite.ts';

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

/** All rows of a query whose first page has come: the CRM makes pages short where records are long. */
export async function readRows(
  client: Pick<CrmClient, 'sendGathered' | 'dataPath'>,
  first: CrmAnswer,
  request: CrmRequest,
  call: SharedCall,
): Promise<CrmRow[]> {
  let { rows, next } = readPage(first, client.dataPath);
  while (next !== undefined) {
    const path: string = next;
    const more: CrmRequest = { operation: 'query', effect: 'read', method: 'GET', path };
    if (request.resource !== undefined) more.resource = request.resource;
    const page = readPage(await client.sendGathered(() => more, call), client.dataPath);
    if (page.rows.length === 0) throw unusable({ effect: 'read' });
    rows = [...rows, ...page.rows];
    next = page.next;
  }
  return rows;
}
