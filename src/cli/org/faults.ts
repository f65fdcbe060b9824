import type { Described } from '../../crm/describe.ts';
import { checkResource } from '../../crm/schema-check.ts';
import { listOf, type Resources } from '../../records/mapping.ts';
import type { Misfit } from '../../records/org-fit.ts';
import { laterStatuses } from '../../records/quotes-and-bookings.ts';

export interface OrgProblem {
  object: string;
  /** Null: the object itself. */
  field: string | null;
  problem: string;
  advice: string;
}

export function problemsOf(resources: Resources, described: Described): OrgProblem[] {
  // Whether there will be reservations is not known here.
  resources.booking.fit.laterStatuses = laterStatuses;
  return listOf(resources).flatMap((resource) =>
    checkResource(resource, described, resources.member.crmObject).misfits.map((misfit) => ({
      object: resource.crmObject,
      field: misfit.column,
      problem: misfit.problem,
      advice: adviceFor(misfit),
    })),
  );
}

function adviceFor({ column, problem, needs }: Misfit): string {
  if (problem.includes('not there'))
    return `Make it with \`handoff org package\`, name another ${column === null ? 'object' : 'field'} in the mapping, or give the integration user the permission to see it.`;
  if (problem.includes('may not'))
    return 'Assign the permission set of `handoff org package` to the integration user.';
  if (needs.includes('create'))
    return 'Map a field of the API to it, add it under `add` with `required: true`, set a value for all records under `set`, or make it optional in the org.';
  if (problem.includes('characters'))
    return 'Make the field longer in the org, or name another one in the mapping.';
  if (problem.includes('the value'))
    return `Add ${problem.includes('the values') ? 'them' : 'the value'} to the picklist, or set \`status: null\` in the mapping.`;
  if (problem.includes('unique') || problem.includes('external ID'))
    return 'Make the field unique and an external ID, or name another field in the mapping.';
  return 'Name another field in the mapping, or change the field in the org.';
}
