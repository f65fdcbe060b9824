import { readDetails } from './details.ts';
import type { FieldValues } from './records.ts';
import type { Resource } from './resource.ts';

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
