import type { Quirk } from './quirks.ts';

/** A message as it goes out: snake_case names; `bigint` where the protocol has int64. */
export type Outgoing = { [name: string]: OutgoingValue };
type OutgoingValue = string | number | boolean | bigint | undefined | Outgoing | Outgoing[];

/**
 * JSON of a message as the Java skeleton prints it: int64 as strings, and no default values (false, 0, empty texts and
 * lists, enums of value 0). Quirks change that.
 */
export function writeMessage(message: Outgoing, quirks: readonly Quirk[]): string {
  return JSON.stringify(message, (name, value: unknown): unknown => {
    if (typeof value === 'bigint') return quirks.includes('numbers') ? Number(value) : String(value);
    if (name !== '' && isDefault(value) && !quirks.includes('printsDefaults')) return undefined;
    return quirks.includes('camelCase') && isObject(value) ? renamed(value) : value;
  });
}

function isDefault(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return (
    value === false ||
    value === 0 ||
    value === '' ||
    (typeof value === 'string' && value.endsWith('_UNSPECIFIED'))
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function renamed(value: Record<string, unknown>): object {
  const entries = Object.entries(value).map(([name, each]) => [
    name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase()),
    each,
  ]);
  return Object.fromEntries(entries) as object;
}
