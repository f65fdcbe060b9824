import type { Resource } from './resource.ts';
import { shownNames } from './shown-fields.ts';

/** Makes the function that gives the fields that a permission on a resource may name; undefined where the resource has none. */
export function fieldNamesOf(resources: () => readonly Resource[]) {
  return (collection: string): readonly string[] | undefined => {
    const resource = resources().find((one) => one.collection === collection);
    return resource && shownNames(resource);
  };
}
