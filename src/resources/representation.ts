import { hash } from 'node:crypto';
import { type TSchema, Type } from 'typebox';
import type { FieldValues } from './records.ts';
import type { Field, Resource } from './resource.ts';

/** Writes a record as the JSON text that consumers see; fields in the order of the declaration. */
export type Represent = (values: FieldValues) => string;

/** Builds the writer once a resource: a field that is JSON text already is copied as it is. */
export function createRepresentation({ fields }: Resource): Represent {
  const parts = Object.entries(fields).map(([name, { kind }], index) => ({
    name,
    prefix: `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`,
    isJson: kind === 'json',
  }));
  return (values) => {
    let text = '';
    for (const { name, prefix, isJson } of parts) {
      const value = values[name] ?? null;
      text += prefix + (isJson ? (value ?? 'null') : JSON.stringify(value));
    }
    return `${text}}`;
  };
}

/** Strong entity tag of a representation: 128 bits of its SHA-256 (RFC 9110 section 8.8.3). */
export function entityTag(representation: string): string {
  return `"${hash('sha256', representation, 'base64url').slice(0, 22)}"`;
}

/** Schema of the representation. Only `id`, which the service makes, is never null. */
export function representationSchema(resource: Resource): TSchema {
  const { fields, name } = resource;
  const properties = Object.fromEntries(
    Object.entries(fields).map(([key, field]) => [key, key === 'id' ? field.schema : orNull(field)]),
  );
  return Type.Object(properties, {
    additionalProperties: false,
    title: schemaName(resource),
    description: `A ${name}.`,
  });
}

/** Name of the resource's schema in the documentation; others are named after it. */
export function schemaName({ name }: Resource): string {
  return `${name[0]?.toUpperCase()}${name.slice(1)}`;
}

/** Values in the CRM may be empty, or not of the field's type. */
function orNull({ schema }: Field): TSchema {
  const { description, ...type } = schema as TSchema & { description?: string };
  return Type.Union([type, Type.Null()], description === undefined ? {} : { description });
}

/** Schema of the body that creates a record. */
export function creationSchema(resource: Resource): TSchema {
  const properties = writableProperties(resource, ({ schema, required }) =>
    required ? schema : Type.Optional(schema),
  );
  return Type.Object(properties, { additionalProperties: false, title: `New${schemaName(resource)}` });
}

/** Schema of the body that changes a record: any of the writable fields, at least one. */
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
  return Object.fromEntries(writable.map(([key, field]) => [key, property(field)]));
}
