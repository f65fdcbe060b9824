import { type TBoolean, type TObject, type TSchema, type TString, Type } from 'typebox';
import { currentSchema } from '../platform/base/current-schema.ts';
import type { TextColumns } from '../platform/base/text.ts';
import { OrgFit } from './org-fit.ts';
import { filterSchemaOf, type OrgType, schemaOf } from './org-types.ts';

export interface CrmColumn {
  /** Path as a query selects it, e.g. `Trip_Id__c` or `Member__r.External_Id__c`. */
  path: string;
  /** For a lookup: the column that holds the CRM's own id, by which errors may name the field. */
  lookupColumn?: string;
  continuations?: readonly string[];
}

export type FieldKind = 'uuid' | 'json' | OrgType['kind'] | 'unknown';

export interface Field<S extends TSchema = TSchema> {
  kind: FieldKind;
  crm: CrmColumn;
  schema: S;
  writable: boolean;
  required: boolean;
  filter: boolean;
  /** The column is an external ID, so that the CRM indexes it. */
  indexed: boolean;
  columns?: TextColumns;
  /**
   * An org may lack the column: then it is left out of what is written and read as null. Columns of the same name here
   * were added together, and count as lacking together.
   */
  optional?: string;
  /** Many orgs lack the optional column for good: nobody is told to add it. */
  isSpare?: true;
  /** Answers show it in an object of this name, with the other fields that say the same; null where the first is. */
  within?: { name: string; description: string };
  /** The org has nothing for it: it is null in answers, and never written. */
  isAbsent?: true;
  values?: readonly string[] | undefined;
  /** UTF-16 units that the org's column holds at most; undefined where it doesn't say. */
  length?: number | undefined;
  added?: {
    type: OrgType | undefined;
    first?: OrgType | undefined;
    /** Where its value is in the body of a hand-off: the parts of a JSON Pointer. */
    from?: readonly string[] | undefined;
  };
}

/** The values that the org takes for a field; undefined where it takes others. */
export function allowedValues(one: Field): readonly string[] | undefined {
  const type = one.added?.type;
  return type !== undefined && 'values' in type ? type.values : one.values;
}

export type Constant = string | number | boolean | { recordType: string };

export const ownerMatches = ['Email', 'Username', 'FederationIdentifier'] as const;

/** Who owns new records: the user whose field says who acts, else the queue (by developer name) or user (by user name). */
export interface OwnerRule {
  match: (typeof ownerMatches)[number];
  else?: { queue: string } | { user: string };
}

export interface Resource {
  /** Singular, as in `{type: "quote"}`. */
  name: string;
  collection: string;
  crmObject: string;
  fields: Readonly<Record<string, Field>>;
  search?: readonly (readonly string[])[];
  constants?: Readonly<Record<string, Constant>>;
  /** Undefined: the integration user owns them. */
  owner?: OwnerRule;
  included?: { base: Resource; member: Resource };
  /** Misfits with the org; shared by all copies of the declaration. */
  fit: OrgFit;
}

export function namesOf(resources: readonly Pick<Resource, 'name'>[]): string[] {
  return resources.map(({ name }) => name);
}

export function defineResource<const R extends Omit<Resource, 'fit'>>(resource: R) {
  return { ...resource, fit: new OrgFit(resource.crmObject) };
}

interface FieldOptions {
  description: string;
  example: unknown;
  writable?: boolean;
  required?: boolean;
  filter?: boolean;
  indexed?: boolean;
  optional?: string;
  isSpare?: true;
  within?: Field['within'];
}

function field<S extends TSchema>(
  kind: FieldKind,
  crm: CrmColumn,
  schema: S,
  options: FieldOptions,
): Field<S> {
  const {
    writable = false,
    required = false,
    filter = false,
    indexed = false,
    optional,
    isSpare,
    within,
  } = options;
  return {
    kind,
    crm,
    schema,
    writable,
    required,
    filter,
    indexed,
    ...(optional !== undefined && { optional }),
    ...(isSpare && { isSpare }),
    ...(within !== undefined && { within }),
  };
}

/** A UUID: either case in, lower case out. */
export function uuid(column: string, options: FieldOptions): Field<TString> {
  return field('uuid', { path: column }, uuidSchema(options.description, options.example), options);
}

/** The External ID of another record that this one points to; `relationship` is the lookup's name with `__r`. */
export function lookup(relationship: string, options: FieldOptions): Field<TString> {
  const crm = lookupColumns(relationship, 'External_Id__c');
  return field('uuid', crm, uuidSchema(options.description, options.example), options);
}

/** The relationship `Member__r` has the column `Member__c`, the standard one `Account` has `AccountId`. */
export function lookupColumns(relationship: string, key: string) {
  const lookupColumn = /__r$/i.test(relationship) ? relationship.replace(/r$/i, 'c') : `${relationship}Id`;
  return { path: `${relationship}.${key}`, lookupColumn };
}

interface AddedOptions {
  description: string;
  writable: boolean;
  required: boolean;
  filter: boolean;
  from?: readonly string[] | undefined;
}

const mostShown = 50;

export function notOneOf(values: readonly string[]): string {
  const list = values.slice(0, mostShown).join(', ');
  return `isn't one of the values that the CRM allows${list && `: ${list}`}.`;
}

export function longerThan(length: number): string {
  return `is longer than ${length} characters.`;
}

export function added(column: string, { from, description, ...access }: AddedOptions): Field {
  const made: Field & Required<Pick<Field, 'added'>> = {
    kind: 'unknown',
    crm: { path: column },
    indexed: false,
    ...access,
    schema: Type.Unsafe({
      description,
      [currentSchema]: () => (made.added.type ? schemaOf(made.added.type) : {}),
    }),
    added: { type: undefined, from },
  };
  return made;
}

export function schemaOfAllowed<S extends TSchema>(
  schema: S,
  valuesNow: () => readonly string[] | undefined,
): S {
  const current = () => {
    const values = valuesNow();
    return values === undefined ? {} : { enum: [...values], examples: values.slice(0, 1) };
  };
  return { ...schema, [currentSchema]: current };
}

export function filterSchema({ schema, added: own }: Field): TSchema {
  if (own === undefined) return schema;
  const { description = '' } = schema as { description?: string };
  const current = () => (own.type ? filterSchemaOf(own.type) : {});
  return Type.Unsafe({ type: 'string', maxLength: 4000, description, [currentSchema]: current });
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

export function boolean(column: string, options: FieldOptions): Field<TBoolean> {
  const { description, example } = options;
  return field('boolean', { path: column }, Type.Boolean({ description, examples: [example] }), options);
}

interface JsonOptions extends FieldOptions {
  /** UTF-16 code units that each column holds. */
  maxLength: number;
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

export function uuidSchema(description: string, example: unknown) {
  return Type.String({ format: 'uuid', maxLength: 36, description, examples: [example] });
}
