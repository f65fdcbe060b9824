import type { Visible } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { splitText } from '../../platform/base/split-text.ts';
import { ownerField } from '../../records/created-by.ts';
import { detailsTooLarge } from '../../records/field-values.ts';
import type { FieldValues } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { lacksOwner, misfitFailure } from '../optional-columns.ts';
import { CrmFailure } from '../rest/failure.ts';
import type { Permit } from '../rest/request.ts';
import type { ItemOutcome } from './operation.ts';

/** Executes the items for which `refusalOf` has no failure; the others fail, and disturb nobody. */
export async function unlessRefused<Item, Result>(
  items: readonly Item[],
  refusalOf: (item: Item) => CrmFailure | undefined,
  executeOthers: (others: readonly Item[]) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  const refusals = items.map(refusalOf);
  const others = items.filter((_, index) => refusals[index] === undefined);
  if (others.length === items.length) return executeOthers(items);
  const outcomes = (others.length === 0 ? [] : await executeOthers(others)).values();
  return refusals.map((failure) =>
    failure ? { failure, ofItem: true } : (outcomes.next().value as ItemOutcome<Result>),
  );
}

/**
 * Executes the items that are still wanted at this moment; the others fail. Where one ends before the call is sent, the rest
 * goes in another call.
 */
export function unlessEnded<Item extends { validUntil?: number | undefined }, Result>(
  items: readonly Item[],
  permit: Permit | undefined,
  executeOthers: (others: readonly Item[], permit: Permit | undefined) => Promise<ItemOutcome<Result>[]>,
): Promise<ItemOutcome<Result>[]> {
  return unlessRefused(items, endRefusal, async (others) => {
    try {
      return await executeOthers(others, permit);
    } catch (error) {
      const isUndone = error instanceof CrmFailure && !error.outcomeUnknown;
      if (!isUndone || others.every((item) => endRefusal(item) === undefined)) throw error;
      return unlessEnded(others, undefined, executeOthers);
    }
  });
}

function endRefusal({ validUntil }: { validUntil?: number | undefined }): CrmFailure | undefined {
  const hasEnded = validUntil !== undefined && wallMs() >= validUntil;
  return hasEnded ? new CrmFailure('ended', 'an offer has ended') : undefined;
}

/** Refuses a caller who may see only its own records where the org has no columns for who made them. */
export function ownerRefusal(resource: Resource, visible: Visible): CrmFailure | undefined {
  const isKnown = visible === 'all' || resource.fields[ownerField] !== undefined;
  return isKnown ? undefined : lacksOwner(resource);
}

/** Refuses new records while their record type is not known: the CRM would give them another one. */
export function typeRefusal({ fit, constants = {} }: Resource): CrmFailure | undefined {
  for (const [column, value] of Object.entries(constants)) {
    if (typeof value !== 'object' || fit.recordTypeId(value.recordType) !== undefined) continue;
    const problem = 'has a record type that is not known before the CRM was asked';
    return misfitFailure(fit.refusal(fit.whyRefused('create', [column]) ?? { column, problem, needs: [] }));
  }
  return undefined;
}

/** Refuses values that the org cannot take, and texts that its columns do not hold. */
export function valueRefusal(resource: Resource, values: FieldValues): CrmFailure | undefined {
  const { fit } = resource;
  const misfit = fit.isWhole
    ? undefined
    : Object.keys(values).flatMap((name) => fit.why('write', name) ?? [])[0];
  return misfit ? misfitFailure(fit.refusal(misfit)) : textRefusal(resource, values);
}

function textRefusal({ fields, fit }: Resource, values: FieldValues): CrmFailure | undefined {
  for (const [name, value] of Object.entries(values)) {
    const columns = fields[name]?.columns;
    if (!columns || !value || splitText(value, columns) !== undefined) continue;
    const problem = detailsTooLarge(`#/${name}`, value.length, columns, fit);
    return new CrmFailure('rejected', problem.message, { problem });
  }
  return undefined;
}
