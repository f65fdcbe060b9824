import type { Described } from '../../crm/describe.ts';
import { checkResource } from '../../crm/schema-check.ts';
import { listOf, type Resources } from '../../records/mapping.ts';
import type { Misfit } from '../../records/org-fit.ts';

/** Something of the org that does not fit the mapping. */
export interface OrgProblem {
  object: string;
  /** Null: the object itself. */
  field: string | null;
  problem: string;
  /** What to do about it. */
  advice: string;
}

/** All that does not fit, in the order of the resources. */
export function problemsOf(resources: Resources, described: Described): OrgProblem[] {
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
    return 'Set a value for it under `set`, map a field of the API to it, or make it optional in the org.';
  if (problem.includes('unique') || problem.includes('external ID'))
    return 'Make the field unique and an external ID, or name another field in the mapping.';
  return 'Name another field in the mapping, or change the field in the org.';
}
