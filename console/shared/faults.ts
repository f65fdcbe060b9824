import type { Problem } from './api.ts';

/**
 * What a problem says of a field of the request, to be shown at the box for it; undefined where it says nothing. `values`:
 * what was sent, where the field is a list.
 */
export function faultAt(
  problem: Problem | undefined,
  field: string,
  values: readonly string[] = [],
): string | undefined {
  const found = problem?.errors?.find((error) => fieldOf(error) === field);
  if (found === undefined) return undefined;
  const value = values[Number(found.pointer?.split('/')[2])];
  const { message } = found;
  if (value !== undefined) return `“${value}” ${message}.`;
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/** Whether all that a problem says is shown at these fields. */
export function isShownAt(problem: Problem, fields: readonly string[]): boolean {
  const { errors = [] } = problem;
  return errors.length > 0 && errors.every((error) => fields.includes(fieldOf(error)));
}

function fieldOf({ pointer = '' }: NonNullable<Problem['errors']>[number]): string {
  return pointer.split('/')[1] ?? '';
}

/** Attributes of a text box, for what is wrong with it or else its hint. */
export function hintOf(
  fault: string | undefined,
  hint?: string,
): { hint: string | undefined; 'aria-invalid': 'true' | undefined } {
  return { hint: fault ?? hint, 'aria-invalid': fault === undefined ? undefined : 'true' };
}
