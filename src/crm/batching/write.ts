import type { FieldValues } from '../../records/records.ts';
import { CrmFailure } from '../failure.ts';
import type { CrmRow } from '../mapping/records.ts';
import { failureOf } from '../rest/errors.ts';
import {
  type BatchCall,
  type CrmAnswer,
  type CrmRequest,
  isSuccess,
  type Part,
  type Permit,
} from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import type { RowsQuery } from '../soql/query.ts';
import { readCollection, readComposite, requireSuccess, toComposite } from './composite.ts';
import { readPage, toPart } from './find.ts';
import type { ItemOutcome } from './operation.ts';

export interface Write {
  singles: readonly CrmRequest[];
  nativeIds?: readonly string[];
  readBack?: RowsQuery | undefined;
  notAfter?: number | undefined;
}

export interface Written {
  outcomes: ItemOutcome<Readonly<Record<string, unknown>> | undefined>[];
  rows: readonly CrmRow[];
}

/**
 * Sends a batch of writes in one metered call, and reads them back in the same one: a Composite call does both in order.
 * Throws `CrmFailure` where the call failed as a whole.
 */
export async function sendWrite(
  client: Pick<CrmClient, 'execute' | 'dataPath' | 'writeHeaders'>,
  write: Write,
  call: BatchCall,
  permit?: Permit,
): Promise<Written> {
  const { singles, readBack } = write;
  const [single] = singles;
  if (single === undefined) throw new Error('a write without items');
  const request = toRequest(client, write, single);
  const answer = await client.execute(request, call, permit);
  const [written = answer, read] = readBack === undefined ? [] : readComposite(answer, 2, request);
  return {
    outcomes:
      singles.length === 1
        ? [readSingle(written, single)]
        : readCollection(requireSuccess(written, request), singles, request),
    rows: read === undefined ? [] : readBackOf(read, client.dataPath),
  };
}

function toRequest(
  { dataPath, writeHeaders }: Pick<CrmClient, 'dataPath' | 'writeHeaders'>,
  write: Write,
  single: CrmRequest,
): CrmRequest {
  const { operation, effect, resource } = single;
  const { readBack, notAfter } = write;
  const records = write.singles.length;
  if (records === 1 && readBack === undefined) return { ...single, records, notAfter };
  const { method, path, body } = records === 1 ? single : toCollection(dataPath, write, single);
  const part = { method, path, ...(body && { body }) };
  const request = { operation, effect, records, notAfter, ...(resource && { resource }), ...part };
  if (readBack === undefined) return request;
  return {
    ...request,
    ...toComposite(dataPath, [{ ...part, httpHeaders: writeHeaders }, toPart(dataPath, readBack)]),
    // A write that failed inside the call has failed as if it had been sent by itself.
    unwrap(answer) {
      const [written] = readComposite(answer, 2, request);
      if (written === undefined || isSuccess(written)) return answer;
      const failure = failureOf(written, records === 1 ? single : request);
      if (written.status >= 500 || failure.kind === 'locked') throw failure;
      return answer;
    },
  };
}

function toCollection(
  dataPath: string,
  { singles, nativeIds }: Write,
  { method, resource }: CrmRequest,
): Part {
  const path = `${dataPath}/composite/sobjects`;
  if (method === 'DELETE') return { method, path: `${path}?ids=${nativeIds?.join(',')}&allOrNone=false` };
  const attributes = { type: resource?.crmObject };
  const records = singles.map(({ body }, index) => ({
    attributes,
    ...(nativeIds && { id: nativeIds[index] }),
    ...body,
  }));
  return { method, path, body: { allOrNone: false, records } };
}

function readSingle(answer: CrmAnswer, request: CrmRequest): Written['outcomes'][number] {
  try {
    const { body } = requireSuccess(answer, request);
    const isObject = typeof body === 'object' && body !== null;
    return { result: isObject ? (body as Record<string, unknown>) : undefined };
  } catch (error) {
    if (error instanceof CrmFailure) return { failure: error, ofItem: true };
    throw error;
  }
}

/** A page that is not whole is enough: a record that is not on it is looked up alone. */
function readBackOf(answer: CrmAnswer, dataPath: string): CrmRow[] {
  if (!isSuccess(answer)) return [];
  try {
    return readPage(answer, dataPath).rows;
  } catch {
    return [];
  }
}

export function writtenFields(
  items: readonly { values: FieldValues; readBack: boolean }[],
): 'all' | readonly string[] {
  if (items.some(({ readBack }) => readBack)) return 'all';
  return items.flatMap(({ values }) => Object.keys(values));
}

/** Bytes in the body, at most: UTF-16 units as UTF-8, escapes left to the reserve that the bound has. */
export function sizeOf({ values }: { values: FieldValues }): number {
  let size = 500;
  for (const value of Object.values(values)) size += 2 * (value?.length ?? 0);
  return size;
}
