import { quote } from '../../records/quotes-and-bookings.ts';
import type { FieldValues } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';

export const sampleId = exampleOf(quote.fields.id) as string;

export function sampleValues({ fields }: Resource): FieldValues {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const example = exampleOf(field) ?? null;
      return [name, field.kind === 'json' ? JSON.stringify(example) : (example as string | null)];
    }),
  );
}

function exampleOf({ schema }: Resource['fields'][string]): unknown {
  return (schema as { examples?: unknown[] }).examples?.[0];
}
