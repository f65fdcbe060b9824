import type { Visible } from '../../platform/base/call.ts';
import { splitText } from '../../platform/base/split-text.ts';
import { ownerField } from '../../records/created-by.ts';
import { detailsTooLarge } from '../../records/field-values.ts';
import type { FieldValues } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { CrmFailure } from '../rest/failure.ts';
import { lacksOwner, misfitFailure } from '../usable-columns.ts';

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
