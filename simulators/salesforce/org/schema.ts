/** A value as a record keeps it; an empty field is absent. */
export type Value = string | number | boolean;

export type FieldType =
  | 'id'
  | 'string'
  | 'textarea'
  | 'picklist'
  | 'multipicklist'
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
  | 'reference';

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
  restricted: boolean;
  picklistValues: string[];
  defaultValue?: Value;
  /** `Q-{000000}` style; present on auto-number fields only. */
  autoNumberFormat?: string;
  referenceTo?: string;
  /** How the parent is named in bodies and paths: `Member__r`. */
  relationshipName?: string;
  /** How the parent names its children. */
  childRelationshipName?: string;
  /** A read-only value made from other fields, such as a Contact's Name. */
  compute?: (row: Row) => string | undefined;
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
  /** False for objects that the API may only read, such as User here. */
  writeable: boolean;
  /** By lower-case name: field names in bodies, paths and queries ignore case. */
  fields: Map<string, Field>;
  /** Those that are hidden for now. */
  hidden?: Map<string, Field>;
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
    restricted: false,
    picklistValues: [],
    ...field,
  };
}

export function createSchema(objects: ObjectType[]): Schema {
  const byName = new Map(objects.map((object) => [object.name.toLowerCase(), object]));
  return { objects, find: (name) => byName.get(name.toLowerCase()) };
}

export function findField(type: ObjectType, name: string): Field | undefined {
  return type.fields.get(name.toLowerCase());
}

/** The lookup field behind a relationship name (`Member__r`, `Account`), whatever its case. */
export function findRelationship(type: ObjectType, name: string): Field | undefined {
  const lower = name.toLowerCase();
  for (const field of type.fields.values()) {
    if (field.relationshipName?.toLowerCase() === lower) return field;
  }
  return undefined;
}

/** What a field of this record reads as, computed fields included. */
export function readField(row: Row, field: Field): Value | undefined {
  return field.compute === undefined ? row[field.name] : field.compute(row);
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

/** Hides these fields (`Quote__c.Actor__c`), as if they had not been deployed, and shows all others again. */
export function hideFields(schema: Schema, names: readonly string[]): void {
  const wanted = new Set(names.map((name) => name.toLowerCase()));
  for (const object of schema.objects) {
    const all = new Map([...object.fields, ...(object.hidden ?? [])]);
    object.hidden = new Map();
    object.fields.clear();
    for (const [name, field] of all) {
      const isHidden = wanted.has(`${object.name}.${name}`.toLowerCase());
      (isHidden ? object.hidden : object.fields).set(name, field);
    }
  }
}
