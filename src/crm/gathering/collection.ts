import type { Resource } from '../../resources/resource.ts';
import { failureOf } from '../rest/errors.ts';
import type { CrmAnswer, CrmRequest } from '../rest/request.ts';
import { unusable } from './composite.ts';
import type { Outcome } from './operation.ts';

/** Records as a Collections call takes them: each names its object (REST Developer Guide, sObject Collections). */
export function toCollection(resource: Resource, records: readonly (object | undefined)[]): object {
  const attributes = { type: resource.crmObject };
  return { allOrNone: false, records: records.map((record) => ({ attributes, ...record })) };
}

/**
 * The outcomes of a Collections call, which answers 200 even where every item failed: by position, errors named by
 * `statusCode`. `requestOf` gives an item's request as if it stood alone. Throws `CrmFailure` for another shape.
 */
export function readCollection<Result>(
  answer: CrmAnswer,
  requestsOfItems: readonly CrmRequest[],
  succeed: (item: Readonly<Record<string, unknown>>, index: number) => Result,
): Outcome<Result>[] {
  const [first] = requestsOfItems;
  const items = answer.body;
  if (!Array.isArray(items) || items.length !== requestsOfItems.length)
    throw unusable({ effect: first?.effect ?? 'change' });
  return requestsOfItems.map((request, index) => {
    const item = items[index] as Record<string, unknown>;
    if (item?.['success'] === true) return { result: succeed(item, index) };
    const failure = failureOf({ status: 400, headers: {}, body: item?.['errors'] }, request);
    return { failure, ofItem: true, alone: failure.kind === 'reference' && isAmbiguous(failure.facts.error) };
  });
}

/** Said of a record that is not there as of one that it refers to; alone, the status tells them apart. */
function isAmbiguous(error: { code: string } | undefined): boolean {
  return error?.code === 'INVALID_CROSS_REFERENCE_KEY';
}
