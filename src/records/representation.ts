import { hash } from 'node:crypto';
import { type TSchema, Type } from 'typebox';
import { noExample } from '../platform/base/current-schema.ts';
import { includedName, includedPart } from './members.ts';
import type { OrgFit } from './org-fit.ts';
import { toJson } from './org-types.ts';
import type { FieldValues } from './records.ts';
import type { Field, Resource } from './resource.ts';

export type Represent = (values: FieldValues) => string;

/**
 * Builds the writer once a resource: a field that is JSON text already is copied as it is. With `fit` it throws `crm_error`
 * for a value that the org did not show; else that is null.
 */
export function createRepresentation({
  fields,
  fit,
  included,
}: Pick<Resource, 'fields' | 'included'> & { fit?: OrgFit }): Represent {
  return objectWriter(
    partsOf(fields).map(([name, part]) => [
      name,
      isField(part) ? fieldWriter(name, part, fit) : partWriter(part, included?.member.fit),
    ]),
  );
}

function objectWriter(members: [string, Represent][]): Represent {
  const parts = members.map(([name, write], index) => ({
    prefix: `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`,
    write,
  }));
  return (values) => {
    let text = '';
    for (const { prefix, write } of parts) text += prefix + write(values);
    return `${text}}`;
  };
}

function fieldWriter(name: string, field: Field, fit?: OrgFit): Represent {
  const write = plainWriter(name, field);
  if (fit === undefined) return write;
  return (values) => {
    if (values[name] === undefined) fit.requireShown(includedName(name) ?? name, field.crm.path);
    return write(values);
  };
}

function plainWriter(name: string, field: Field): Represent {
  if (field.kind === 'json') return (values) => values[name] ?? 'null';
  if (field.added !== undefined || field.kind === 'boolean')
    return (values) => toJson(field.kind, values[name]);
  return (values) => JSON.stringify(values[name] ?? null);
}

/** Null where its first field is. */
function partWriter(fields: Resource['fields'], fit?: OrgFit): Represent {
  const entries = Object.entries(fields);
  const [[first] = ['']] = entries;
  const write = objectWriter(
    entries.map(([name, field]) => [includedName(name) ?? name, fieldWriter(name, field, fit)]),
  );
  return (values) => ((values[first] ?? null) === null ? 'null' : write(values));
}

function partsOf(fields: Resource['fields']): [string, Field | Resource['fields']][] {
  const parts = new Map<string, Field | Record<string, Field>>();
  for (const [name, field] of Object.entries(fields)) {
    if (field.within === undefined) parts.set(name, field);
    else {
      const { name: part } = field.within;
      parts.set(part, { ...(parts.get(part) as Resource['fields'] | undefined), [name]: field });
    }
  }
  return [...parts];
}

function isField(part: Field | Resource['fields']): part is Field {
  return 'crm' in part;
}

/** Strong entity tag of a representation: 128 bits of its SHA-256 (RFC 9110 section 8.8.3). */
export function entityTag(representation: string): string {
  return `"${hash('sha256', representation, 'base64url').slice(0, 22)}"`;
}

/**
 * Schema of the representation. Only `id`, which the service makes, is never null. What a permission by fields hides stays
 * required: for all others it is, and types made from it would have to expect each field to be missing.
 */
export function representationSchema(resource: Resource): TSchema {
  const { fields, name } = resource;
  const properties = Object.fromEntries(
    partsOf(fields).map(([key, part]) => {
      // Shown only where a request asks for it.
      if (key === includedPart)
        return [key, Type.Optional({ ...partSchema(part as Resource['fields']), [noExample]: true })];
      if (!isField(part)) return [key, partSchema(part)];
      return [key, key === 'id' ? part.schema : orNull(part)];
    }),
  );
  return Type.Object(properties, {
    additionalProperties: false,
    title: schemaName(resource),
    description:
      `A ${name}. Where the permission of the credentials names fields, it has those and \`id\` alone: the others are left ` +
      'out, also where they are required here.',
  });
}

/** Schema of fields that stand in an object of their own. Only the first of them is never null in it. */
function partSchema(fields: Resource['fields']): TSchema {
  const [first] = Object.values(fields);
  const properties = Object.entries(fields).map(([name, field]) => [
    includedName(name) ?? name,
    field === first ? field.schema : orNull(field),
  ]);
  const part = Type.Object(Object.fromEntries(properties), { additionalProperties: false });
  return Type.Union([part, Type.Null()], { description: first?.within?.description ?? '' });
}

export function schemaName({ name }: Resource): string {
  return `${name[0]?.toUpperCase()}${name.slice(1)}`;
}

/** Values in the CRM may be empty, or not of the field's type. */
function orNull({ schema }: Field): TSchema {
  const { description, ...type } = schema as TSchema & { description?: string };
  return Type.Union([type, Type.Null()], description === undefined ? {} : { description });
}

export function creationSchema(resource: Resource): TSchema {
  const properties = writableProperties(resource, ({ schema, required }) =>
    required ? schema : Type.Optional(schema),
  );
  return Type.Object(properties, { additionalProperties: false, title: `New${schemaName(resource)}` });
}

export function changeSchema(resource: Resource): TSchema {
  const properties = writableProperties(resource, ({ schema }) => Type.Optional(schema));
  return Type.Object(properties, {
    additionalProperties: false,
    minProperties: 1,
    title: `${schemaName(resource)}Change`,
  });
}

function writableProperties({ fields }: Resource, property: (field: Field) => TSchema) {
  const writable = Object.entries(fields).filter(([, field]) => field.writable);
  return Object.fromEntries(
    writable.map(([key, field]) => {
      // Null empties a field that the org added.
      const canBeEmptied = field.added !== undefined && !field.required;
      return [key, property(canBeEmptied ? { ...field, schema: orNull(field) } : field)];
    }),
  );
}
