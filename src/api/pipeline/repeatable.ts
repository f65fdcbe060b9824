import type { RequestSchemas } from '../route.ts';
import type { Step } from './step.ts';

/** Makes lists of query parameters that may be repeated, also where they come once. */
export function gatherRepeatable({ query }: RequestSchemas): Step {
  const { properties = {} } = (query ?? {}) as { properties?: Record<string, { type?: string }> };
  const repeatable = Object.keys(properties).filter((name) => properties[name]?.type === 'array');
  return (request) => {
    const given = request.query as Record<string, unknown>;
    for (const name of repeatable) if (given[name] !== undefined) given[name] = [given[name]].flat();
  };
}
