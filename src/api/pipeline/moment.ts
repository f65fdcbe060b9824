import { Problem } from '../../base/problem.ts';

/** The moment in a query parameter, in milliseconds since 1970. A leap second fits the format and no clock. */
export function readMoment(text: string, parameter: string): number {
  const ms = Date.parse(text);
  if (!Number.isNaN(ms)) return ms;
  const message = 'must be a moment that exists, as RFC 3339 writes it';
  throw new Problem('invalid_request', `The query is not valid: ${parameter} ${message}.`, {
    errors: [{ parameter, message }],
  });
}
