import { Problem } from '../../base/problem.ts';

/**
 * The time that a text of the format date-time names, at this place of the body. The format lets times pass that no
 * calendar has, such as leap seconds anywhere. Throws `invalid_request`, also for years that others cannot take.
 */
export function readTime(text: string, path: readonly string[]): Date {
  const time = new Date(text);
  const year = time.getUTCFullYear();
  if (year >= 1970 && year <= 9999) return time;
  const message = 'must be a time between 1970 and 9999';
  throw new Problem('invalid_request', `The body's "${path.join('.')}" ${message}.`, {
    errors: [{ pointer: `#/${path.join('/')}`, message }],
  });
}
