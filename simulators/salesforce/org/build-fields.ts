import type { FieldDescription, FieldKind, ObjectDescription } from './description.ts';
import {
  defineField,
  type Field,
  type FieldType,
  type PicklistValue,
  type Row,
  type Value,
} from './schema.ts';

const READ_ONLY = { createable: false, updateable: false } as const;

/** Types of API, with their length where the description gives none. */
const TYPES: Record<
  Exclude<FieldKind, 'address' | 'location'>,
  { type: FieldType; length?: number } & Partial<Field>
> = {
  text: { type: 'string', length: 255 },
  textarea: { type: 'textarea', length: 255 },
  longtext: { type: 'textarea', length: 32_768, long: true },
  richtext: { type: 'textarea', length: 32_768, long: true, html: true },
  email: { type: 'email', length: 80 },
  phone: { type: 'phone', length: 40 },
  url: { type: 'url', length: 255 },
  int: { type: 'int', precision: 8 },
  number: { type: 'double' },
  currency: { type: 'currency' },
  percent: { type: 'percent' },
  checkbox: { type: 'boolean', defaultValue: false },
  date: { type: 'date' },
  datetime: { type: 'datetime' },
  time: { type: 'time' },
  picklist: { type: 'picklist', length: 255 },
  multipicklist: { type: 'multipicklist', length: 4099 },
  combobox: { type: 'combobox', length: 255 },
  reference: { type: 'reference', length: 18 },
  autonumber: { type: 'string', length: 30, ...READ_ONLY },
};

/** The parts of a compound field, with the names in standard fields and in own ones. */
const ADDRESS_PARTS: readonly [standard: string, own: string, length: number][] = [
  ['Street', 'Street', 255],
  ['City', 'City', 40],
  ['State', 'StateCode', 80],
  ['PostalCode', 'PostalCode', 20],
  ['Country', 'CountryCode', 80],
];

export function systemFields({ owned, custom }: { owned: boolean; custom: boolean }): Field[] {
  const user = (name: string) =>
    lookup(name, ['User'], { relationshipName: name.replace(/Id$/, ''), ...READ_ONLY });
  const owner = lookup('OwnerId', custom ? ['Group', 'User'] : ['User'], { relationshipName: 'Owner' });
  const isDeleted = defineField({ name: 'IsDeleted', type: 'boolean', defaultValue: false, ...READ_ONLY });
  return [
    defineField({ name: 'Id', type: 'id', length: 18, ...READ_ONLY }),
    ...(owned ? [isDeleted, owner] : []),
    defineField({ name: 'CreatedDate', type: 'datetime', ...READ_ONLY }),
    user('CreatedById'),
    defineField({ name: 'LastModifiedDate', type: 'datetime', ...READ_ONLY }),
    user('LastModifiedById'),
    defineField({ name: 'SystemModstamp', type: 'datetime', ...READ_ONLY }),
  ];
}

function lookup(name: string, referenceTo: string[], more: Partial<Field>): Field {
  return defineField({ name, type: 'reference', length: 18, referenceTo, ...more });
}

export function recordTypeField(): Field {
  return lookup('RecordTypeId', ['RecordType'], { label: 'Record Type ID', relationshipName: 'RecordType' });
}

/** The name of a record of an own object. */
export function nameField(described: ObjectDescription['name']): Field {
  const { type = 'text', label = 'Name', format = '{0}' } = described ?? {};
  const number = type === 'autonumber' ? { autoNumberFormat: format, ...READ_ONLY } : { fallsBackToId: true };
  return defineField({ name: 'Name', type: 'string', length: 80, label, ...number });
}

function picklistValues({ values = [], default: standard }: FieldDescription): PicklistValue[] {
  return values.map((each) => {
    const given = typeof each === 'string' ? { value: each } : each;
    const { value, label = value, active = true } = given;
    return { value, label, active, isDefault: given.default ?? value === standard };
  });
}

function defaultOf(described: FieldDescription, values: PicklistValue[]): { defaultValue?: Value } {
  const value = values.find(({ isDefault }) => isDefault)?.value ?? described.default;
  return value === undefined || value === null ? {} : { defaultValue: value };
}

function relationOf(name: string, described: FieldDescription): Partial<Field> {
  if (described.type !== 'reference') return {};
  const isOwn = name.endsWith('__c');
  const { children, relationshipName = isOwn ? name.replace(/__c$/, '__r') : name.replace(/Id$/, '') } =
    described;
  return {
    referenceTo: [described.referenceTo ?? []].flat(),
    relationshipName,
    ...(children !== undefined && { childRelationshipName: isOwn ? `${children}__r` : children }),
    ...(described.lookupFilter && { lookupFilter: described.lookupFilter }),
  };
}

function joined(names: readonly string[]): (row: Row) => string | undefined {
  return (row) => {
    const parts = names.map((name) => row[name]).filter((part) => part !== undefined);
    return parts.length === 0 ? undefined : parts.join(' ');
  };
}

/** An address or a geolocation: read as an object, written by its parts. */
function compound(name: string, described: FieldDescription): Field[] {
  const isOwn = name.endsWith('__c');
  const partName = (own: string, standard: string) =>
    isOwn ? `${name.replace(/__c$/, '')}__${own}__s` : name.replace(/Address$/, '') + standard;
  const more = { compoundFieldName: name, custom: isOwn };
  const coordinate = (part: string) =>
    defineField({ name: partName(part, part), type: 'double', precision: 18, scale: 15, ...more });
  const texts =
    described.type === 'location'
      ? []
      : ADDRESS_PARTS.map(([standard, own, length]) =>
          defineField({
            name: partName(own, standard),
            type: own === 'Street' ? 'textarea' : 'string',
            length,
            ...more,
          }),
        );
  const parts = [...texts, coordinate('Latitude'), coordinate('Longitude')];
  const keys = [
    ...(texts.length > 0 ? ['street', 'city', 'state', 'postalCode', 'country'] : []),
    'latitude',
    'longitude',
  ];
  const compute = (row: Row) => {
    const values = parts.map((part) => row[part.name] ?? null);
    if (values.every((value) => value === null)) return undefined;
    return Object.fromEntries(keys.map((key, index) => [key, values[index]]));
  };
  const type = described.type === 'location' ? 'location' : 'address';
  return [defineField({ name, type, compute, ...READ_ONLY }), ...parts];
}

/** The field of a description; a compound one comes with its parts. */
export function buildField(name: string, described: FieldDescription): Field[] {
  const { type: kind, formula, access, format } = described;
  if (kind === 'address' || kind === 'location') return compound(name, described);
  const picklist = picklistValues(described);
  const { length, precision, scale, required, unique, externalId, caseSensitive, restricted, label } =
    described;
  const given = { label, length, precision, scale, required, unique, externalId, caseSensitive, restricted };
  return [
    defineField({
      name,
      ...TYPES[kind],
      ...present(given),
      ...(picklist.length > 0 && { picklistValues: picklist }),
      ...defaultOf(described, picklist),
      ...relationOf(name, described),
      ...(kind === 'autonumber' && { autoNumberFormat: format ?? '{0}' }),
      ...(formula && { formula, compute: joined(formula), ...READ_ONLY }),
      ...(access === 'read' && READ_ONLY),
    }),
  ];
}

function present<T extends object>(values: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as { [K in keyof T]?: NonNullable<T[K]> };
}
