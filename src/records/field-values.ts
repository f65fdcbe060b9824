import { compactField } from '../platform/base/json-text.ts';
import { Problem } from '../platform/base/problem.ts';
import { splitText, type TextColumns } from '../platform/base/split-text.ts';
import type { FieldValues } from './records.ts';
import type { Field, Resource } from './resource.ts';

/** How deep `details` may nest, itself counted as the first level. */
const maxDetailsDepth = 100;

/**
 * The JSON object at `path` of a request body as compact text, digit for digit as it came. `bodyText` has passed
 * JSON.parse and the body's schema. Throws `details_too_large`, and `invalid_request` where it nests too deep.
 */
export function readDetails(bodyText: string, path: readonly string[], field: Field): string {
  const details = compactField(bodyText, path);
  if (details === undefined)
    throw new Error(`there is no ${path.join('.')} in a body that passed its schema`);
  const pointer = `#/${path.join('/')}`;
  if (details.depth > maxDetailsDepth) {
    const message = `must nest at most ${maxDetailsDepth} levels deep, and nest ${details.depth}`;
    throw new Problem('invalid_request', `The details ${message}.`, {
      errors: [{ pointer, message }],
    });
  }
  if (field.columns && splitText(details.text, field.columns) === undefined)
    throw detailsTooLarge(pointer, details.text.length, field.columns);
  return details.text;
}

/** The refusal of a text of this length, which no cuts fit into the columns. */
export function detailsTooLarge(pointer: string, length: number, { size, count }: TextColumns): Problem {
  const most =
    count === 1 || length > size * count
      ? `the CRM holds at most ${size * count}`
      : `the CRM holds parts of at most ${size}, and too much white space in a row is where they would be cut`;
  const message = `take ${length} characters without insignificant white space; ${most}`;
  return new Problem('details_too_large', `The details ${message}.`, { errors: [{ pointer, message }] });
}

/**
 * The values of a body that has passed its schema, as the records port takes them: UUIDs in lower case, JSON as the
 * text that was sent. Throws `details_too_large`, `invalid_request`.
 */
export function readFieldValues({ fields }: Resource, body: unknown, bodyText: string): FieldValues {
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(body as Record<string, unknown>)) {
    const field = fields[name];
    if (field === undefined) throw new Error(`the field ${name} passed the schema and is not declared`);
    if (field.kind === 'json') values[name] = readDetails(bodyText, [name], field);
    else values[name] = field.kind === 'uuid' ? (value as string).toLowerCase() : (value as string);
  }
  return values;
}

/** Whether a record has all these values. */
export function hasValues(has: FieldValues, wanted: FieldValues): boolean {
  return Object.entries(wanted).every(([name, value]) => has[name] === value);
}
