import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { XMLParser } from 'fast-xml-parser';
import type { Field, FieldType, ObjectType, Schema } from './schema.ts';
import { createSchema, defineField } from './schema.ts';
import { fieldMap, standardObjects, systemFields } from './standard-objects.ts';

type Xml = Record<string, unknown>;

const FIELD_TYPES: Record<string, FieldType> = {
  Text: 'string',
  TextArea: 'textarea',
  LongTextArea: 'textarea',
  Html: 'textarea',
  Email: 'email',
  Phone: 'phone',
  Url: 'url',
  Number: 'double',
  Currency: 'currency',
  Percent: 'percent',
  Checkbox: 'boolean',
  Date: 'date',
  DateTime: 'datetime',
  Time: 'time',
  Picklist: 'picklist',
  MultiselectPicklist: 'multipicklist',
  Lookup: 'reference',
  MasterDetail: 'reference',
  AutoNumber: 'string',
};

const DEFAULT_LENGTHS: Partial<Record<FieldType, number>> = {
  string: 255,
  textarea: 255,
  email: 80,
  phone: 40,
  url: 255,
  picklist: 255,
  multipicklist: 4099,
  reference: 18,
};

// Values stay text: a parser that turned `010` into a number would lose the zero of a display format.
const parser = new XMLParser({ parseTagValue: false, isArray: (name) => name === 'value' });

function readXml(file: string, root: string): Xml {
  const parsed = parser.parse(readFileSync(file, 'utf8'), true) as Xml;
  const content = parsed[root];
  if (typeof content !== 'object' || content === null) throw new Error(`${file}: no ${root} element`);
  return content as Xml;
}

function str(xml: Xml, name: string): string | undefined {
  const value = xml[name];
  return typeof value === 'string' ? value : undefined;
}

function num(xml: Xml, name: string, otherwise = 0): number {
  const value = str(xml, name);
  return value === undefined ? otherwise : Number(value);
}

function picklist(xml: Xml): Partial<Field> {
  const set = (xml.valueSet ?? {}) as Xml;
  const values = (((set.valueSetDefinition ?? {}) as Xml).value ?? []) as Xml[];
  const chosen = values.find((value) => value.default === 'true');
  const standard = chosen === undefined ? undefined : str(chosen, 'fullName');
  return {
    restricted: set.restricted === 'true',
    picklistValues: values.map((value) => str(value, 'fullName') ?? ''),
    ...(standard === undefined ? {} : { defaultValue: standard }),
  };
}

function reference(xml: Xml, name: string): Partial<Field> {
  const child = str(xml, 'relationshipName');
  return {
    referenceTo: str(xml, 'referenceTo') ?? '',
    relationshipName: name.replace(/__c$/, '__r'),
    ...(child === undefined ? {} : { childRelationshipName: `${child}__r` }),
  };
}

function typeDetails(xml: Xml, declared: string, name: string): Partial<Field> {
  switch (declared) {
    case 'Picklist':
    case 'MultiselectPicklist':
      return picklist(xml);
    case 'Lookup':
    case 'MasterDetail':
      return reference(xml, name);
    case 'AutoNumber':
      return autoNumber(xml);
    case 'Checkbox':
      return { defaultValue: xml.defaultValue === 'true' };
    case 'LongTextArea':
    case 'Html':
      return { long: true };
    default:
      return {};
  }
}

function autoNumber(xml: Xml): Partial<Field> {
  const format = str(xml, 'displayFormat') ?? '{0}';
  return { autoNumberFormat: format, length: 30, createable: false, updateable: false };
}

function readField(file: string): Field {
  const xml = readXml(file, 'CustomField');
  const name = str(xml, 'fullName') ?? basename(file).replace('.field-meta.xml', '');
  const declared = str(xml, 'type') ?? '';
  const type = FIELD_TYPES[declared];
  if (type === undefined) throw new Error(`${file}: field type ${declared} is not simulated`);
  const calculated = 'formula' in xml ? { createable: false, updateable: false } : {};
  return defineField({
    name,
    type,
    label: str(xml, 'label') ?? name,
    length: num(xml, 'length', DEFAULT_LENGTHS[type]),
    precision: num(xml, 'precision'),
    scale: num(xml, 'scale'),
    required: xml.required === 'true' || declared === 'MasterDetail',
    externalId: xml.externalId === 'true',
    unique: xml.unique === 'true',
    caseSensitive: xml.caseSensitive === 'true',
    ...typeDetails(xml, declared, name),
    ...calculated,
  });
}

function nameField(xml: Xml): Field {
  const declared = (xml.nameField ?? {}) as Xml;
  const label = str(declared, 'label') ?? 'Name';
  if (declared.type === 'AutoNumber') {
    return defineField({ name: 'Name', type: 'string', label, ...autoNumber(declared), length: 80 });
  }
  return defineField({ name: 'Name', type: 'string', label, length: 80 });
}

/** Made from the name, so that ids in a data file keep their prefix when the package gains an object. */
function customKeyPrefix(name: string, taken: Set<string>): string {
  for (let attempt = 0; ; attempt += 1) {
    const digest = createHash('sha256').update(`${name}:${attempt}`).digest();
    const prefix = `a${digest.readUInt16BE(0).toString(36).padStart(2, '0').slice(-2)}`;
    if (!taken.has(prefix)) return prefix;
  }
}

function newObject(name: string, taken: Set<string>): ObjectType {
  const keyPrefix = customKeyPrefix(name, taken);
  taken.add(keyPrefix);
  return {
    name,
    label: name,
    pluralLabel: name,
    keyPrefix,
    custom: name.endsWith('__c'),
    writeable: true,
    fields: fieldMap([...systemFields(), defineField({ name: 'Name', type: 'string', length: 80 })]),
  };
}

function applyObjectFile(object: ObjectType, file: string): void {
  const xml = readXml(file, 'CustomObject');
  object.label = str(xml, 'label') ?? object.label;
  object.pluralLabel = str(xml, 'pluralLabel') ?? object.pluralLabel;
  if (object.custom) object.fields.set('name', nameField(xml));
}

function metadataFiles(packageDir: string): string[] {
  if (!existsSync(packageDir)) throw new Error(`package directory ${packageDir} does not exist`);
  const names = readdirSync(packageDir, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /\.(object|field)-meta\.xml$/.test(name)).sort();
}

/**
 * The standard objects plus what a source-format package declares (`objects/X/X.object-meta.xml`,
 * `objects/X/fields/Y.field-meta.xml`), the same files that would be deployed to an org.
 * @throws Error naming the directory or file that is missing or not understood.
 */
export function loadSchema(packageDir: string): Schema {
  const objects = new Map(standardObjects().map((object) => [object.name, object]));
  const taken = new Set([...objects.values()].map((object) => object.keyPrefix));
  for (const relative of metadataFiles(packageDir)) {
    const file = join(packageDir, relative);
    const isField = relative.endsWith('.field-meta.xml');
    const name = basename(isField ? dirname(dirname(file)) : dirname(file));
    const object = objects.get(name) ?? newObject(name, taken);
    objects.set(name, object);
    if (isField) {
      const field = readField(file);
      object.fields.set(field.name.toLowerCase(), field);
    } else {
      applyObjectFile(object, file);
    }
  }
  return createSchema([...objects.values()].sort((a, b) => (a.name < b.name ? -1 : 1)));
}
