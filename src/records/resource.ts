import { type TObject, type TSchema, type TString, Type } from 'typebox';
import type { TextColumns } from '../platform/base/split-text.ts';

/** Where a field lives in the CRM: a column, or the External ID of the record that a lookup points to. */
export interface CrmColumn {
  /** Path as a query selects it, e.g. `Trip_Id__c` or `Member__r.External_Id__c`. */
  path: string;
  /** For a lookup: the column that holds the CRM's own id, by which errors may name the field. */
  lookupColumn?: string;
  /** For long text: the columns that it continues in, one after the other. */
  continuations?: readonly string[];
}

/** What the content of a field must be, wherever it is read or written. */
export type FieldKind = 'uuid' | 'text' | 'json' | 'timestamp';

export interface Field<S extends TSchema = TSchema> {
  kind: FieldKind;
  crm: CrmColumn;
  /** JSON Schema of the value in requests and answers, with its description. */
  schema: S;
  /** Written by consumers; otherwise read only. */
  writable: boolean;
  /** Needed to create a record. */
  required: boolean;
  /** A list can be filtered by it. */
  filter: boolean;
  /** The column is an external ID, so that the CRM indexes it. */
  indexed: boolean;
  /** For JSON text: the columns that hold it. */
  columns?: TextColumns;
  /**
   * An org may lack the column: then it is left out of what is written and read as null. Columns of the same name here
   * were added together, and count as lacking together.
   */
  optional?: string;
  /** Answers show it in an object of this name, with the other fields that say the same; null where the first is. */
  within?: { name: string; description: string };
}

export interface Resource {
  /** Singular, as in `{type: "quote"}`. */
  name: string;
  /** Plural, as in the path and in permissions. */
  collection: string;
  crmObject: string;
  fields: Readonly<Record<string, Field>>;
}

interface FieldOptions {
  description: string;
  /** A value as it stands in the examples of the documentation. */
  example: unknown;
  writable?: boolean;
  required?: boolean;
  filter?: boolean;
  indexed?: boolean;
  optional?: string;
  within?: Field['within'];
}

function field<S extends TSchema>(
  kind: FieldKind,
  crm: CrmColumn,
  schema: S,
  options: FieldOptions,
): Field<S> {
  const { writable = false, required = false, filter = false, indexed = false, optional, within } = options;
  return {
    ...{ kind, crm, schema, writable, required, filter, indexed },
    ...(optional !== undefined && { optional }),
    ...(within !== undefined && { within }),
  };
}

/** A UUID: either case in, lower case out. */
export function uuid(column: string, options: FieldOptions): Field<TString> {
  return field('uuid', { path: column }, uuidSchema(options.description, options.example), options);
}

/** The External ID of another record that this one points to; `relationship` is the lookup's name with `__r`. */
export function lookup(relationship: string, options: FieldOptions): Field<TString> {
  const crm = { path: `${relationship}.External_Id__c`, lookupColumn: relationship.replace(/__r$/, '__c') };
  return field('uuid', crm, uuidSchema(options.description, options.example), options);
}

/** Text of 1 to `maxLength` characters, not only white space (which the CRM would store as null). */
export function text(column: string, options: FieldOptions & { maxLength?: number }): Field<TString> {
  const { maxLength = 255, description, example } = options;
  const schema = Type.String({
    minLength: 1,
    maxLength,
    pattern: '\\S',
    format: 'text',
    description,
    examples: [example],
  });
  return field('text', { path: column }, schema, options);
}

interface JsonOptions extends FieldOptions {
  /** UTF-16 code units that each column holds. */
  maxLength: number;
  /** The columns in which a text goes on that one does not hold. */
  continuations: readonly string[];
}

/** Any JSON object, kept digit for digit as text in long text fields. */
export function json(column: string, options: JsonOptions): Field<TObject> & { columns: TextColumns } {
  const { description, example, continuations, maxLength } = options;
  const schema = Type.Object({}, { additionalProperties: true, description, examples: [example] });
  return {
    ...field('json', { path: column, continuations }, schema, options),
    columns: { size: maxLength, count: 1 + continuations.length },
  };
}

/** A moment that the CRM sets: RFC 3339 UTC with milliseconds; the CRM's own resolution is one second. */
export function timestamp(column: string, options: FieldOptions): Field<TString> {
  const { description, example } = options;
  const schema = Type.String({ format: 'date-time', maxLength: 24, description, examples: [example] });
  return field('timestamp', { path: column }, schema, options);
}

/** Schema of a UUID in a request or an answer. */
export function uuidSchema(description: string, example: unknown) {
  return Type.String({ format: 'uuid', maxLength: 36, description, examples: [example] });
}
