import type { Described } from '../../crm/describe.ts';
import { columnOf } from '../../crm/optional-columns.ts';
import { checkResource, takes } from '../../crm/schema-check.ts';
import { listOf, type Resources } from '../../records/mapping.ts';
import type { Misfit } from '../../records/org-fit.ts';
import { writtenStatuses } from '../../records/quotes-and-bookings.ts';

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
  const misfits = listOf(resources).flatMap((resource) =>
    checkResource(resource, described, resources.member.crmObject).misfits.map((misfit) => ({
      object: resource.crmObject,
      field: misfit.column,
      problem: misfit.problem,
      advice: adviceFor(misfit),
    })),
  );
  return [...misfits, ...reservationFaults(resources, described)];
}

/** Values of a booking's status that reservations write, and that the org refuses; others work without them. */
function reservationFaults({ booking }: Resources, described: Described): OrgProblem[] {
  const { crm, isAbsent } = booking.fields['status'] ?? {};
  if (crm === undefined || isAbsent) return [];
  const column = columnOf(crm);
  const [first, ...others] = writtenStatuses.booking;
  const found = described
    .get(booking.crmObject.toLowerCase())
    ?.fields.find(({ name }) => name.toLowerCase() === column.toLowerCase());
  if (found === undefined || !takes(found, first)) return [];
  const refused = others.filter((value) => !takes(found, value));
  if (refused.length === 0) return [];
  return [
    {
      object: booking.crmObject,
      field: column,
      problem: `does not take the values ${refused.join(', ')}, which bookings of reservations get`,
      advice: `Add them to the picklist, or set \`status: null\` in the mapping.`,
    },
  ];
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
    return 'Add the value to the picklist, or set `status: null` in the mapping.';
  if (problem.includes('unique') || problem.includes('external ID'))
    return 'Make the field unique and an external ID, or name another field in the mapping.';
  return 'Name another field in the mapping, or change the field in the org.';
}
