import type { RequestSchemas } from '../route.ts';
import type { Step } from './step.ts';

const wholeNumber = /^(0|[1-9]\d{0,8})$/;

/**
 * Query parameters come as texts. Makes numbers of those that a route declares as integers, and lists of those that may be
 * repeated, also where they come once. Text that is no plain whole number stays text, and its schema refuses it.
 */
export function readQueryValues({ query }: RequestSchemas): Step {
  const { properties = {} } = (query ?? {}) as { properties?: Record<string, { type?: string }> };
  const namesOf = (type: string) => Object.keys(properties).filter((name) => properties[name]?.type === type);
  const integers = namesOf('integer');
  const lists = namesOf('array');
  return (request) => {
    const given = request.query as Record<string, unknown>;
    for (const name of integers) {
      const value = given[name];
      if (typeof value === 'string' && wholeNumber.test(value)) given[name] = Number(value);
    }
    for (const name of lists) if (given[name] !== undefined) given[name] = [given[name]].flat();
  };
}
