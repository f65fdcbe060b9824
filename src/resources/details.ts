import { compactMember } from '../base/json-text.ts';
import { Problem } from '../base/problem.ts';
import type { Field } from './resource.ts';

/** How deep `details` may nest, itself counted as the first level. */
const maxDetailsDepth = 100;

/**
 * The JSON object at `path` of a request body as compact text, digit for digit as it came. `bodyText` has passed
 * JSON.parse and the body's schema. Throws `details_too_large`, and `invalid_request` where it nests too deep.
 */
export function readDetails(bodyText: string, path: readonly string[], field: Field): string {
  const details = compactMember(bodyText, path);
  if (details === undefined)
    throw new Error(`there is no ${path.join('.')} in a body that passed its schema`);
  const pointer = `#/${path.join('/')}`;
  if (details.depth > maxDetailsDepth) {
    const message = `must nest at most ${maxDetailsDepth} levels deep, and nest ${details.depth}`;
    throw new Problem('invalid_request', `The details ${message}.`, {
      errors: [{ pointer, message }],
    });
  }
  const { length } = details.text;
  const maxLength = field.maxLength ?? Number.POSITIVE_INFINITY;
  if (length > maxLength) {
    const message = `take ${length} characters without insignificant white space; the CRM holds at most ${maxLength}`;
    throw new Problem('details_too_large', `The details ${message}.`, { errors: [{ pointer, message }] });
  }
  return details.text;
}
