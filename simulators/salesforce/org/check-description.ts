import type { DescriptionFault, MembersDescription, ObjectDescription } from './description.ts';
import { type Field, findField, type ObjectType, type Schema } from './schema.ts';

interface Named {
  /** What the description says. */
  name: string;
  path: string[];
  /** The object that should have a field of this name. */
  of: ObjectType | undefined;
}

function unknownFields(named: readonly Named[]): DescriptionFault[] {
  return named
    .filter(({ name, of }) => !of?.all.has(name.toLowerCase()))
    .map(({ name, path, of }) => ({
      path,
      message: `names ${name}, which is no field of ${of?.name ?? 'any object'}`,
    }));
}

function unknownTargets(schema: Schema, field: Field, path: string[]): DescriptionFault[] {
  return field.referenceTo
    .filter((name) => schema.find(name) === undefined)
    .map((name) => ({ path, message: `names ${name}, which is no object` }));
}

/** The fields that fields of an object name. */
function namedByField(schema: Schema, type: ObjectType, field: Field, path: string[]): Named[] {
  const filter = field.lookupFilter;
  const target = schema.find(field.referenceTo[0] ?? '');
  return [
    ...(field.formula ?? []).map((name) => ({ name, path: [...path, 'formula'], of: type })),
    ...(filter ? [{ name: filter.field, path: [...path, 'lookupFilter'], of: target }] : []),
  ];
}

/** The fields that record types and duplicate rules of an object name. */
function namedByRules(type: ObjectType, described: ObjectDescription, path: string[]): Named[] {
  const recordTypes = Object.entries(described.recordTypes ?? {}).flatMap(([developerName, { picklists }]) =>
    Object.keys(picklists ?? {}).map((name) => ({
      name,
      path: [...path, 'recordTypes', developerName, 'picklists', name],
      of: type,
    })),
  );
  const rules = (described.duplicateRules ?? []).flatMap(({ fields }, index) =>
    fields.map((name) => ({ name, path: [...path, 'duplicateRules', String(index), 'fields'], of: type })),
  );
  return [...recordTypes, ...rules];
}

/** What an object names and the org does not have. */
export function checkObject(
  schema: Schema,
  type: ObjectType,
  described: ObjectDescription,
): DescriptionFault[] {
  const path = ['objects', type.name];
  const faults: DescriptionFault[] = [];
  for (const name of Object.keys(described.fields ?? {})) {
    const field = type.all.get(name.toLowerCase());
    if (field === undefined) continue;
    const where = [...path, 'fields', name];
    faults.push(...unknownTargets(schema, field, [...where, 'referenceTo']));
    faults.push(...unknownFields(namedByField(schema, type, field, where)));
  }
  return [...faults, ...unknownFields(namedByRules(type, described, path))];
}

/** What is wrong with the object that has the seeded members. */
export function checkMembers(schema: Schema, members: MembersDescription): DescriptionFault[] {
  const { object, values: _values, ...fields } = members;
  const type = schema.find(object);
  if (type === undefined)
    return [{ path: ['members', 'object'], message: `names ${object}, which is no object` }];
  const named = Object.entries(fields).map(([member, name]) => ({
    name,
    path: ['members', member],
    of: type,
  }));
  const isKey = findField(type, members.key)?.externalId !== false;
  const noKey = { path: ['members', 'key'], message: `names ${members.key}, which is no external ID` };
  return [...unknownFields(named), ...(isKey ? [] : [noKey])];
}
