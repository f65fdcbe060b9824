import { isFieldVisible, type VisibleFields } from '../platform/base/call.ts';
import { createRepresentation, type Represent } from './representation.ts';
import type { Field, Resource } from './resource.ts';

export function shownName(name: string, { within }: Field): string {
  return within?.name ?? name;
}

export function shownNames({ fields }: Pick<Resource, 'fields'>): string[] {
  return [...new Set(Object.entries(fields).map(([name, field]) => shownName(name, field)))];
}

/** Makes the function that gives the fields that a permission on a resource may name; undefined where the resource has none. */
export function fieldNamesOf(resources: () => readonly Resource[]) {
  return (collection: string): readonly string[] | undefined => {
    const resource = resources().find((one) => one.collection === collection);
    return resource && shownNames(resource);
  };
}

export type RepresentFor = (visible: VisibleFields) => Represent;

export function createRepresentations(resource: Parameters<typeof createRepresentation>[0]): RepresentFor {
  const whole = createRepresentation(resource);
  const narrow = new WeakMap<readonly string[], Represent>();
  return (visible) => {
    if (visible === undefined) return whole;
    let represent = narrow.get(visible);
    if (represent === undefined) {
      represent = createRepresentation({ ...resource, fields: onlyShown(resource, visible) });
      narrow.set(visible, represent);
    }
    return represent;
  };
}

function onlyShown({ fields }: Pick<Resource, 'fields'>, visible: VisibleFields): Resource['fields'] {
  return Object.fromEntries(
    Object.entries(fields).filter(([name, field]) => isFieldVisible(visible, shownName(name, field))),
  );
}
