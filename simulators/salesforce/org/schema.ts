import type { DuplicateRule } from './description.ts';

/** A value as a record keeps it; an empty field is absent. */
export type Value = string | number | boolean;

export type FieldType =
  | 'id'
  | 'string'
  | 'textarea'
  | 'picklist'
  | 'multipicklist'
  | 'combobox'
  | 'boolean'
  | 'int'
  | 'double'
  | 'currency'
  | 'percent'
  | 'date'
  | 'datetime'
  | 'time'
  | 'email'
  | 'phone'
  | 'url'
  | 'reference'
  | 'address'
  | 'location';

export interface PicklistValue {
  value: string;
  /** What people see; never written. */
  label: string;
  /** An inactive value stays in old records and is given to no new one. */
  active: boolean;
  isDefault: boolean;
}

/** A kind of records of one object. */
export interface RecordType {
  id: string;
  developerName: string;
  label: string;
  /** The integration user may use it. */
  available: boolean;
  active: boolean;
  /** The user's default. */
  isDefault: boolean;
  /** By name of a picklist, the values that it allows. */
  picklists: ReadonlyMap<string, ReadonlySet<string>>;
}

export interface Field {
  name: string;
  label: string;
  type: FieldType;
  custom: boolean;
  /** Characters (UTF-16 code units); 0 where it does not apply. */
  length: number;
  precision: number;
  scale: number;
  required: boolean;
  createable: boolean;
  updateable: boolean;
  externalId: boolean;
  unique: boolean;
  caseSensitive: boolean;
  /** Long and rich text: neither filterable nor sortable in SOQL. */
  long: boolean;
  /** Rich text. */
  html: boolean;
  restricted: boolean;
  picklistValues: PicklistValue[];
  defaultValue?: Value;
  /** `Q-{000000}` style; present on auto-number fields only. */
  autoNumberFormat?: string;
  /** More than one object for a polymorphic lookup; empty for other fields. */
  referenceTo: readonly string[];
  /** How the parent is named in bodies and paths: `Member__r`. */
  relationshipName?: string;
  /** How the parent names its children. */
  childRelationshipName?: string;
  /** A parent for which this does not hold is refused. */
  lookupFilter?: { field: string; equals: Value | null; message?: string };
  /** The address or location that it is a part of. */
  compoundFieldName?: string;
  /** The name of a record of an own object: its id, where none is given. */
  fallsBackToId: boolean;
  /** The fields of a formula. */
  formula?: readonly string[];
  /** A read-only value made from other fields, such as a Contact's Name; an object for compound fields. */
  compute?: (row: Row) => Value | object | undefined;
}

/** A stored record. Never changed in place: an update replaces the whole object. */
export interface Row {
  readonly Id: string;
  readonly [field: string]: Value | undefined;
}

/** A record that is being made or changed; an empty field may be undefined. */
export type Draft = Record<string, Value | undefined> & { Id: string };

export interface ObjectType {
  name: string;
  label: string;
  pluralLabel: string;
  keyPrefix: string;
  custom: boolean;
  /** False for objects that the user may only read, such as User here. */
  writeable: boolean;
  /** The user may delete records. */
  deletable: boolean;
  /** Its records are made from the description, and kept nowhere. */
  setup: boolean;
  /** The user has View All Records. */
  viewAll: boolean;
  /** The user sees only the records that it owns. */
  ownOnly: boolean;
  /** Every field by lower-case name: names in bodies, paths and queries ignore case. */
  all: Map<string, Field>;
  /** Those that the user may not see. */
  denied: ReadonlySet<string>;
  /** Those that the user sees now. */
  fields: Map<string, Field>;
  recordTypes: RecordType[];
  duplicateRules: DuplicateRule[];
}

export interface Schema {
  objects: ObjectType[];
  find(name: string): ObjectType | undefined;
}

/** A field with every property at its ordinary value; the given ones replace them. */
export function defineField(field: Partial<Field> & { name: string; type: FieldType }): Field {
  return {
    label: field.name.replace(/__c$/, '').replaceAll('_', ' '),
    custom: field.name.endsWith('__c'),
    length: 0,
    precision: 0,
    scale: 0,
    required: false,
    createable: true,
    updateable: true,
    externalId: false,
    unique: false,
    caseSensitive: false,
    long: false,
    html: false,
    restricted: false,
    picklistValues: [],
    referenceTo: [],
    fallsBackToId: false,
    ...field,
  };
}

/** All fields are shown that the user may see. */
export function createSchema(objects: ObjectType[]): Schema {
  const byName = new Map(objects.map((object) => [object.name.toLowerCase(), object]));
  const schema: Schema = { objects, find: (name) => byName.get(name.toLowerCase()) };
  hideFields(schema, []);
  return schema;
}

export function findField(type: ObjectType, name: string): Field | undefined {
  return type.fields.get(name.toLowerCase());
}

/** An address or a location: read as an object, and neither filtered nor sorted by. */
export function isCompound({ type }: Field): boolean {
  return type === 'address' || type === 'location';
}

/** The lookup field behind a relationship name (`Member__r`, `Account`), whatever its case. */
export function findRelationship(type: ObjectType, name: string): Field | undefined {
  const lower = name.toLowerCase();
  for (const field of type.fields.values()) {
    if (field.relationshipName?.toLowerCase() === lower) return field;
  }
  return undefined;
}

/** What a field of this record reads as, computed fields included; an object for compound fields. */
export function showField(row: Row, field: Field): Value | object | undefined {
  return field.compute === undefined ? row[field.name] : field.compute(row);
}

/** The same for what is compared; a compound field can't be. */
export function readField(row: Row, field: Field): Value | undefined {
  const value = showField(row, field);
  return typeof value === 'object' ? undefined : value;
}

/**
 * The form in which two values of a field are the same. Text compares without case unless the field is unique and
 * case-sensitive (SOQL and SOSL Reference, Comparison Operators).
 */
export function foldFor(field: Field): (value: Value) => Value {
  if (field.type === 'id' || field.type === 'reference') return (value) => value;
  if (field.unique && field.caseSensitive) return (value) => value;
  return (value) => (typeof value === 'string' ? value.toLowerCase() : value);
}

/** Hides these fields (`Quote__c.Actor__c`), as if they had not been deployed, and shows all others that the user may see. */
export function hideFields(schema: Schema, names: readonly string[]): void {
  const wanted = new Set(names.map((name) => name.toLowerCase()));
  for (const type of schema.objects) {
    const isHidden = (name: string): boolean =>
      type.denied.has(name) || wanted.has(`${type.name}.${name}`.toLowerCase());
    type.fields = new Map([...type.all].filter(([name]) => !isHidden(name)));
  }
}
