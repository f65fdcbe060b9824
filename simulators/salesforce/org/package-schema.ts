import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { XMLParser } from 'fast-xml-parser';
import {
  FIELD_KINDS,
  type FieldDescription,
  type FieldKind,
  type ObjectDescription,
  type OrgDescription,
} from './description.ts';

type Xml = Record<string, unknown>;

const FIELD_TYPES: Record<string, FieldKind> = {
  Text: 'text',
  TextArea: 'textarea',
  LongTextArea: 'longtext',
  Html: 'richtext',
  Email: 'email',
  Phone: 'phone',
  Url: 'url',
  Number: 'number',
  Currency: 'currency',
  Percent: 'percent',
  Checkbox: 'checkbox',
  Date: 'date',
  DateTime: 'datetime',
  Time: 'time',
  Picklist: 'picklist',
  MultiselectPicklist: 'multipicklist',
  Lookup: 'reference',
  MasterDetail: 'reference',
  AutoNumber: 'autonumber',
  Location: 'location',
};

// Values stay text: a parser that turned `010` into a number would lose the zero of a display format.
const parser = new XMLParser({ parseTagValue: false, isArray: (name) => name === 'value' });

/** By their text: a process that starts many orgs reads the same files again and again. */
const parsed = new Map<string, Xml>();

function readXml(file: string, root: string): Xml {
  const text = readFileSync(file, 'utf8');
  const xml = parsed.get(text) ?? (parser.parse(text, true) as Xml);
  parsed.set(text, xml);
  const content = xml[root];
  if (typeof content !== 'object' || content === null) throw new Error(`${file}: no ${root} element`);
  return content as Xml;
}

function str(xml: Xml, name: string): string | undefined {
  const value = xml[name];
  return typeof value === 'string' ? value : undefined;
}

function num(xml: Xml, name: string): number | undefined {
  const value = str(xml, name);
  return value === undefined ? undefined : Number(value);
}

/** True where the file says so; what is false by default is left out. */
function flag(xml: Xml, name: string): true | undefined {
  return xml[name] === 'true' ? true : undefined;
}

function picklist(xml: Xml): Partial<FieldDescription> {
  const set = (xml.valueSet ?? {}) as Xml;
  const values = (((set.valueSetDefinition ?? {}) as Xml).value ?? []) as Xml[];
  return present({
    restricted: flag(set, 'restricted'),
    values: values.map((each) =>
      present({
        value: str(each, 'fullName') ?? '',
        label: str(each, 'label'),
        active: each.isActive === 'false' ? false : undefined,
        default: flag(each, 'default'),
      }),
    ),
  });
}

function typeDetails(xml: Xml, kind: FieldKind): Partial<FieldDescription> {
  switch (kind) {
    case 'picklist':
    case 'multipicklist':
      return picklist(xml);
    case 'reference':
      return present({ referenceTo: str(xml, 'referenceTo') ?? '', children: str(xml, 'relationshipName') });
    case 'autonumber':
      return { format: str(xml, 'displayFormat') ?? '{0}' };
    case 'checkbox':
      return { default: xml.defaultValue === 'true' };
    default:
      return {};
  }
}

/** Members that are not undefined. */
function present<T extends object>(values: T): { [K in keyof T]: NonNullable<T[K]> } {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as { [K in keyof T]: NonNullable<T[K]> };
}

function readField(file: string): [name: string, field: FieldDescription] {
  const xml = readXml(file, 'CustomField');
  const name = str(xml, 'fullName') ?? basename(file).replace('.field-meta.xml', '');
  const declared = str(xml, 'type') ?? '';
  const type = FIELD_TYPES[declared];
  if (type === undefined) throw new Error(`${file}: field type ${declared} is not simulated`);
  const required = declared === 'MasterDetail' ? true : flag(xml, 'required');
  const given = {
    type,
    label: str(xml, 'label') ?? name,
    length: num(xml, 'length'),
    precision: num(xml, 'precision'),
    scale: num(xml, 'scale'),
    required,
    externalId: flag(xml, 'externalId'),
    unique: flag(xml, 'unique'),
    caseSensitive: flag(xml, 'caseSensitive'),
    // Formulas of a package are read only, and not worked out.
    formula: 'formula' in xml ? [] : undefined,
  };
  const allowed: readonly string[] = ['type', 'label', 'required', ...FIELD_KINDS[type]];
  const kept = Object.entries(present(given)).filter(([option]) => allowed.includes(option));
  return [name, { ...(Object.fromEntries(kept) as unknown as FieldDescription), ...typeDetails(xml, type) }];
}

function readObject(file: string): ObjectDescription {
  const xml = readXml(file, 'CustomObject');
  const described = { label: str(xml, 'label'), plural: str(xml, 'pluralLabel') };
  if (xml.nameField === undefined) return present(described) as ObjectDescription;
  const name = xml.nameField as Xml;
  const type = name.type === 'AutoNumber' ? 'autonumber' : 'text';
  const details = { type, label: str(name, 'label'), format: str(name, 'displayFormat') } as const;
  return present({ ...described, name: present(details) }) as ObjectDescription;
}

function metadataFiles(packageDir: string): string[] {
  if (!existsSync(packageDir)) throw new Error(`package directory ${packageDir} does not exist`);
  const names = readdirSync(packageDir, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /\.(object|field)-meta\.xml$/.test(name)).sort();
}

/**
 * What a source-format package declares (`objects/X/X.object-meta.xml`, `objects/X/fields/Y.field-meta.xml`), the same
 * files that would be deployed to an org.
 * @throws Error naming the directory or file that is missing or not understood.
 */
export function describePackage(packageDir: string): Pick<OrgDescription, 'objects'> {
  const objects: Record<string, ObjectDescription> = {};
  for (const relative of metadataFiles(packageDir)) {
    const file = join(packageDir, relative);
    const isField = relative.endsWith('.field-meta.xml');
    const name = basename(isField ? dirname(dirname(file)) : dirname(file));
    const object = objects[name] ?? {};
    if (isField) {
      const [field, described] = readField(file);
      objects[name] = { ...object, fields: { ...object.fields, [field]: described } };
    } else {
      objects[name] = { ...object, ...readObject(file) };
    }
  }
  return { objects };
}
