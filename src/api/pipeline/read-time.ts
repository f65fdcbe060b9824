import { Problem } from '../../base/problem.ts';

/**
 * The time that a text of the format date-time names, at this place of the body. The format lets times pass that no
 * calendar has, such as leap seconds anywhere. Throws `invalid_request`, also for years that others cannot take.
 */
export function readTime(text: string, path: readonly string[]): Date {
  const time = timeOf(text);
  if (time) return time;
  throw new Problem('invalid_request', `The body's "${path.join('.')}" ${message}.`, {
    errors: [{ pointer: `#/${path.join('/')}`, message }],
  });
}

/** The same for a parameter of the query. */
export function readTimeParameter(text: string, parameter: string): Date {
  const time = timeOf(text);
  if (time) return time;
  throw new Problem('invalid_request', `The query is not valid: ${parameter} ${message}.`, {
    errors: [{ parameter, message }],
  });
}

const message = 'must be a time between 1970 and 9999';

function timeOf(text: string): Date | undefined {
  const time = new Date(text);
  const year = time.getUTCFullYear();
  return year >= 1970 && year <= 9999 ? time : undefined;
}
