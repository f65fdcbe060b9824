import { ApiError } from '../org/api-error.ts';
import { isPlainObject } from '../org/interpret.ts';

const REFERENCE = /@\{([A-Za-z0-9_]+)((?:\.[A-Za-z0-9_]+|\[\d+\])*)\}/g;

function step(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value[Number(name)];
  return isPlainObject(value) ? value[name] : undefined;
}

function lookUp(results: Map<string, unknown>, id: string, path: string): unknown {
  if (!results.has(id)) throw halted(`Invalid reference specified. No value for ${id} found`);
  let value = results.get(id);
  for (const [name] of path.matchAll(/[A-Za-z0-9_]+/g)) value = step(value, name);
  if (value === undefined || value === null || typeof value === 'object') {
    throw halted(`Invalid reference specified. No value for ${id}${path} found in ${id}`);
  }
  return value;
}

export function halted(message: string): ApiError {
  return new ApiError(400, 'PROCESSING_HALTED', message);
}

/**
 * Puts results of earlier subrequests in the place of `@{name.path}`, which is case-sensitive (Composite).
 * @param results bodies of the subrequests that succeeded so far, by referenceId.
 * @throws ApiError PROCESSING_HALTED for a reference to what did not succeed or has no such value.
 */
export function fillReferences<T>(value: T, results: Map<string, unknown>): T {
  if (typeof value === 'string') {
    return value.replace(REFERENCE, (_match, id: string, path: string) =>
      String(lookUp(results, id, path)),
    ) as T;
  }
  if (Array.isArray(value)) return value.map((item) => fillReferences(item as unknown, results)) as T;
  if (!isPlainObject(value)) return value;
  const filled = Object.entries(value).map(([name, item]) => [name, fillReferences(item, results)]);
  return Object.fromEntries(filled) as T;
}
