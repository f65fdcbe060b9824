import type { Call } from '../../platform/base/call.ts';
import { CrmFailure } from '../failure.ts';
import { type AnsweredRequest, failureOf } from '../rest/errors.ts';
import { type CrmAnswer, type CrmRequest, isSuccess, type Part } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import type { ItemOutcome } from './operation.ts';

/** `{"compositeResponse": [{"body": {"records": [` stand around a row. */
export const frameDepth = 5;

/**
 * One metered call that does several things in order (REST Developer Guide, Composite). Without `collateSubrequests`
 * the CRM may change the order. `allOrNone`: one part that fails rolls all back.
 */
export function toComposite(
  dataPath: string,
  parts: readonly Part[],
  { allOrNone = false } = {},
): Pick<CrmRequest, 'method' | 'path' | 'body' | 'parts'> {
  const compositeRequest = parts.map(({ method, path, body, httpHeaders = {} }, index) => ({
    method,
    url: path,
    referenceId: `part${index}`,
    ...(Object.keys(httpHeaders).length > 0 && { httpHeaders }),
    ...(body && { body }),
  }));
  return {
    method: 'POST',
    path: `${dataPath}/composite`,
    body: { allOrNone, collateSubrequests: false, compositeRequest },
    parts,
  };
}

/** Sends several reads in one metered call: an answer for each, in their order. Throws `Problem`, `CrmFailure`. */
export async function readTogether(
  client: Pick<CrmClient, 'send' | 'dataPath'>,
  parts: readonly Part[],
  { operation, records = parts.length }: Pick<CrmRequest, 'operation' | 'records'>,
  call: Call,
): Promise<CrmAnswer[]> {
  const composite = toComposite(client.dataPath, parts);
  const request: CrmRequest = { operation, effect: 'read', records, ...composite };
  return readComposite(await client.send(request, call), parts.length, request);
}

export function readComposite(
  answer: CrmAnswer,
  count: number,
  request: Pick<CrmRequest, 'effect'>,
): CrmAnswer[] {
  const parts = (answer.body as { compositeResponse?: unknown } | undefined)?.compositeResponse;
  if (!Array.isArray(parts) || parts.length !== count) throw unusable(request);
  return parts.map((part: Record<string, unknown> | null) => {
    const status = part?.['httpStatusCode'];
    if (typeof status !== 'number') throw unusable(request);
    return { status, headers: {}, body: part?.['body'] ?? undefined };
  });
}

/**
 * The outcomes of a Collections call, which answers 200 even where every item failed: by position, errors named by
 * `statusCode`. Takes each item's request as if it stood alone. Throws `CrmFailure` for another shape.
 */
export function readCollection(
  answer: CrmAnswer,
  singles: readonly CrmRequest[],
  request: CrmRequest,
): ItemOutcome<Readonly<Record<string, unknown>>>[] {
  const items = answer.body;
  if (!Array.isArray(items) || items.length !== singles.length) throw unusable(request);
  return singles.map((single, index) => {
    const item = items[index] as Record<string, unknown>;
    if (item?.['success'] === true) return { result: item };
    const failure = failureOf({ status: 400, headers: {}, body: item?.['errors'] }, single);
    // The same code means a missing record or a missing referenced record; for a single request the status
    // distinguishes them.
    const isAmbiguous =
      failure.kind === 'reference' && failure.facts.error?.code === 'INVALID_CROSS_REFERENCE_KEY';
    return { failure, ofItem: true, isAmbiguous };
  });
}

/** An answer without success that stands inside another answer. Throws `CrmFailure`. */
export function requireSuccess(answer: CrmAnswer, request: AnsweredRequest): CrmAnswer {
  if (isSuccess(answer)) return answer;
  throw failureOf(answer, request);
}

export function unusable({ effect }: Pick<CrmRequest, 'effect'>): CrmFailure {
  return new CrmFailure('broken', "a response doesn't have the expected shape", {
    status: 200,
    outcomeUnknown: effect !== 'read',
  });
}

/** An identifier of the CRM's own, of 15 or 18 letters and digits. Throws `CrmFailure` (broken) for anything else. */
export function nativeIdOf(value: unknown, { effect }: Pick<CrmRequest, 'effect'>): string {
  if (typeof value === 'string' && /^[A-Za-z0-9]{15,18}$/.test(value)) return value;
  throw unusable({ effect });
}
