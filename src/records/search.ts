import type { FieldValues } from './records.ts';
import type { Resource } from './resource.ts';

/** Between texts: a search finds nothing across it. */
const separator = '\u001f';

/** A text as filters and searches compare it: without case, as the CRM does. The database takes no NUL and no half of a pair. */
export function folded(value: string): string {
  return value.toLowerCase().replaceAll('\0', '').toWellFormed();
}

export function searchedTexts({ search = [], fields }: Resource): readonly (readonly string[])[] {
  return search
    .map((names) => names.filter((name) => fields[name] !== undefined && !fields[name].isAbsent))
    .filter((names) => names.length > 0);
}

export function searchedFields(resource: Resource): string[] {
  return searchedTexts(resource).flat();
}

export function searchText(resource: Resource, values: FieldValues): string {
  return searchedTexts(resource)
    .map((names) => names.flatMap((name) => values[name] ?? []).join(' '))
    .filter((text) => text !== '')
    .join(separator);
}
