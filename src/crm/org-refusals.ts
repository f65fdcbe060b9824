import { type Call, remainingMs } from '../platform/base/call.ts';
import type { Misfit, Need } from '../records/org-fit.ts';
import type { Resource } from '../records/resource.ts';
import type { CrmError, CrmFailure } from './failure.ts';
import { apiFieldOf } from './mapping/names.ts';
import { explain } from './rest/problems.ts';
import { aboutOf, misfitFailure, namedBy } from './usable-columns.ts';

/** The longest wait for a look at the org, in milliseconds: one in 5 s, the next check for it, and the call itself. */
const longestWaitMs = 7500;

export interface Refused {
  resource: Resource;
  need: Need;
  written: readonly string[];
  ofService?: readonly string[] | undefined;
  call: Call;
}

/**
 * Has the org looked at where its description may explain a refusal, and returns the failure that callers are to hear of: what
 * does not fit the org, which is its operator's to repair, or else the CRM's own.
 */
export async function explainByOrg(failure: CrmFailure, refused: Refused): Promise<CrmFailure> {
  const { ofOrg = [] } = failure.facts;
  if (ofOrg.length === 0 || failure.facts.problem !== undefined) return failure;
  const { resource, call } = refused;
  await resource.fit.onRefused({
    about: aboutOf(ofOrg, resource),
    waitMs: Math.min(longestWaitMs, remainingMs(call)),
  });
  const misfit = findMisfit(failure, ofOrg, refused) ?? findForeign(failure, ofOrg, refused);
  if (misfit === undefined) return failure;
  return misfitFailure(resource.fit.problemOf(misfit, { cause: failure }), failure.facts);
}

function findMisfit(
  { kind }: CrmFailure,
  ofOrg: readonly CrmError[],
  { resource: { fit }, need, written }: Refused,
): Misfit | undefined {
  const named = ofOrg.flatMap(namedBy);
  const known = fit.whyRefused(need, named);
  // A value that can't be read is refused without the name of its field. A trigger that fails names none either.
  return known ?? (kind === 'rejected' || named.length > 0 ? undefined : fit.whyUnfit(written));
}

/** A field that the caller does not set, or can't: the refusal is none of its doing, though the description does not show why. */
function findForeign(
  { kind }: CrmFailure,
  ofOrg: readonly CrmError[],
  { resource, written, ofService = [] }: Refused,
): Misfit | undefined {
  if (kind !== 'rejected') return undefined;
  for (const error of ofOrg) {
    for (const column of error.fields.filter((name) => /^\w{1,80}$/.test(name))) {
      const name = apiFieldOf(resource, column);
      const isOfService = name !== undefined && ofService.includes(name);
      if (!isOfService && isOfCaller(name, resource, written)) continue;
      return {
        kind: 'mismatch',
        name,
        column,
        problem: explain(error, resource).replace(/\.$/, ''),
        needs: [],
      };
    }
  }
  return undefined;
}

function isOfCaller(name: string | undefined, { fields }: Resource, written: readonly string[]): boolean {
  const field = name === undefined ? undefined : fields[name];
  if (name === undefined || !field?.writable) return false;
  return (
    field.added === undefined || written.includes(name) || (field.required && field.added.from !== undefined)
  );
}
