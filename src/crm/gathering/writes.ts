import type { CrmRow } from '../mapping/records.ts';
import { CrmFailure } from '../rest/failure.ts';
import type { SharedCall } from '../rest/limiter.ts';
import type { CrmAnswer, CrmRequest } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { readCollection } from './collection.ts';
import { isSuccess, type Part, readComposite, requireSuccess, toComposite } from './composite.ts';
import type { Outcome } from './operation.ts';
import { readPage } from './rows.ts';

/** How one kind of write is put to the CRM. */
export interface WriteForm<Item> {
  /** One item, as a call of its own. */
  alone(item: Item): CrmRequest;
  /** Several items as one Collections call; `requests` are what each of them would be alone. */
  together(items: readonly Item[], requests: readonly CrmRequest[]): Part;
  /** The query that reads back what the items leave behind; undefined where nobody asks for it. */
  readBack(items: readonly Item[]): string | undefined;
}

export interface Written {
  /** The item's own part of the answer; undefined where it has none. */
  outcome: Outcome<Readonly<Record<string, unknown>> | undefined>;
  /** What the query read back; undefined where there was none, or where it failed though the write did not. */
  rows: readonly CrmRow[] | undefined;
}

/**
 * Writes items in one metered call, and reads them back in the same one: a Composite call does both in order. Throws
 * `CrmFailure` where the call failed as a whole.
 */
export async function sendWrite<Item>(
  client: Pick<CrmClient, 'sendGathered' | 'dataPath'>,
  form: WriteForm<Item>,
  items: () => readonly Item[],
  call: SharedCall,
): Promise<Written[]> {
  let plan: ReturnType<typeof planOf<Item>> | undefined;
  const planned = () => (plan ??= planOf(client.dataPath, form, items()));
  const answer = await client.sendGathered(() => planned().request, call);
  const { requests, request, isComposite } = planned();
  const [write, read] = isComposite ? readComposite(answer, 2, request) : [answer];
  const outcomes = requests.length === 1 ? [readAlone(write, requests)] : readMany(write, requests, request);
  const rows = read && readBackOf(read, client.dataPath);
  return outcomes.map((outcome) => ({ outcome, rows }));
}

function planOf<Item>(dataPath: string, form: WriteForm<Item>, items: readonly Item[]) {
  const requests = items.map((item) => form.alone(item));
  const [first] = requests;
  if (first === undefined) throw new Error('a write without items');
  const soql = form.readBack(items);
  const write: Part = requests.length === 1 ? first : form.together(items, requests);
  const read: Part = { method: 'GET', path: `${dataPath}/query?q=${encodeURIComponent(soql ?? '')}` };
  const { operation, effect, resource } = first;
  const part = soql === undefined ? write : toComposite(dataPath, [write, read]);
  const request: CrmRequest = { operation, effect, ...part, records: items.length };
  if (resource !== undefined) request.resource = resource;
  // What a lone call meets is about its record; in the body of another call, that call's path names none.
  if (requests.length === 1 && soql === undefined && first.addressesRecord) request.addressesRecord = true;
  return { requests, request, isComposite: soql !== undefined };
}

function readAlone(answer: CrmAnswer | undefined, [request]: CrmRequest[]): Written['outcome'] {
  if (answer === undefined || request === undefined)
    throw new Error('an answer that was checked is not there');
  try {
    const { body } = requireSuccess(answer, request);
    return {
      result: typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : undefined,
    };
  } catch (error) {
    if (error instanceof CrmFailure) return { failure: error, ofItem: true };
    throw error;
  }
}

function readMany(
  answer: CrmAnswer | undefined,
  requests: readonly CrmRequest[],
  request: CrmRequest,
): Written['outcome'][] {
  if (answer === undefined) throw new Error('an answer that was checked is not there');
  return readCollection(requireSuccess(answer, request), requests, (item) => item);
}

/** A page that is not whole is enough: who is not on it is looked up alone. */
function readBackOf(answer: CrmAnswer, dataPath: string): CrmRow[] | undefined {
  if (!isSuccess(answer)) return undefined;
  try {
    return readPage(answer, dataPath).rows;
  } catch {
    return undefined;
  }
}
