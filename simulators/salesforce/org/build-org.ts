import { createHash } from 'node:crypto';
import { ControlError } from '../../shared/control-error.ts';
import { readAutomation } from './automation-input.ts';
import { buildField, nameField, recordTypeField, systemFields } from './build-fields.ts';
import { checkMembers, checkObject } from './check-description.ts';
import type { AutomationDeclaration } from './declaration.ts';
import {
  type DescriptionFault,
  FIELD_KINDS,
  type FieldDescription,
  type ObjectDescription,
  type OrgDescription,
} from './description.ts';
import { makeId } from './ids.ts';
import { createSchema, type Field, type ObjectType, type RecordType, type Schema } from './schema.ts';

/** An org as its description says it. */
export interface Built {
  description: OrgDescription;
  schema: Schema;
  automation: AutomationDeclaration;
}

interface Building {
  description: OrgDescription;
  faults: DescriptionFault[];
}

function entries<T>(record: Record<string, T> | undefined): [string, T][] {
  return Object.entries(record ?? {});
}

/** Made from the name, so that ids in a data file keep their prefix when the org gains an object. */
function customKeyPrefix(name: string, taken: Set<string>): string {
  for (let attempt = 0; ; attempt += 1) {
    const digest = createHash('sha256').update(`${name}:${attempt}`).digest();
    const prefix = `a${digest.readUInt16BE(0).toString(36).padStart(2, '0').slice(-2)}`;
    if (!taken.has(prefix)) return prefix;
  }
}

function checkOptions({ faults }: Building, path: string[], described: FieldDescription): void {
  const allowed: readonly string[] = ['type', 'label', 'required', 'access', ...FIELD_KINDS[described.type]];
  for (const option of Object.keys(described)) {
    if (!allowed.includes(option))
      faults.push({ path: [...path, option], message: `is no option of a field of type ${described.type}` });
  }
  if (described.type === 'reference' && described.referenceTo === undefined)
    faults.push({ path, message: 'needs referenceTo' });
}

function readFields(building: Building, name: string, described: ObjectDescription): Field[] {
  const { currencies } = building.description;
  const isSetup = described.setup === true;
  const fields = systemFields({ owned: !isSetup, custom: name.endsWith('__c') });
  if (name.endsWith('__c')) fields.push(nameField(described.name));
  if (described.recordTypes !== undefined) fields.push(recordTypeField());
  if (currencies !== undefined && !isSetup) {
    const { default: standard, active, inactive = [] } = currencies;
    const values = [...active, ...inactive.map((value) => ({ value, active: false }))];
    const code: FieldDescription = {
      type: 'picklist',
      length: 3,
      restricted: true,
      values,
      default: standard,
    };
    fields.push(...buildField('CurrencyIsoCode', code));
  }
  for (const [field, description] of entries(described.fields)) {
    checkOptions(building, ['objects', name, 'fields', field], description);
    fields.push(...buildField(field, description));
  }
  return fields;
}

/** The same id for the same record type in every start. */
function recordTypeId(object: string, developerName: string): string {
  return makeId('012', createHash('sha256').update(`${object}.${developerName}`).digest().readUInt32BE(0));
}

function readRecordTypes(object: string, described: ObjectDescription): RecordType[] {
  return entries(described.recordTypes).map(([developerName, given]) => ({
    id: recordTypeId(object, developerName),
    developerName,
    label: given.label ?? developerName.replaceAll('_', ' '),
    available: given.available !== false && given.active !== false,
    active: given.active !== false,
    isDefault: given.default === true,
    picklists: new Map(entries(given.picklists).map(([field, values]) => [field, new Set(values)])),
  }));
}

function buildObject(
  building: Building,
  name: string,
  described: ObjectDescription,
  taken: Set<string>,
): ObjectType {
  const keyPrefix = described.keyPrefix ?? customKeyPrefix(name, taken);
  taken.add(keyPrefix);
  const all = new Map(
    readFields(building, name, described).map((field) => [field.name.toLowerCase(), field]),
  );
  const denied = entries(described.fields).filter(([, { access }]) => access === 'none');
  const label = described.label ?? name;
  const type: ObjectType = {
    name,
    label,
    pluralLabel: described.plural ?? label,
    keyPrefix,
    custom: name.endsWith('__c'),
    writeable: described.access !== 'read',
    deletable: described.access !== 'read' && described.deletable !== false,
    setup: described.setup === true,
    viewAll: described.viewAll !== false,
    ownOnly: described.sharing === 'private' && described.viewAll === false,
    all,
    denied: new Set(denied.map(([field]) => field.toLowerCase())),
    fields: new Map(),
    recordTypes: readRecordTypes(name, described),
    duplicateRules: described.duplicateRules ?? [],
  };
  return type;
}

/** The triggers or rules of one object, one by one, so that each that is wrong is a fault of its own. */
function readObjectAutomation(
  { faults }: Building,
  schema: Schema,
  object: string,
  described: ObjectDescription,
): AutomationDeclaration {
  const read: AutomationDeclaration = { triggers: [], validationRules: [], requiredFields: [] };
  for (const list of ['triggers', 'validationRules'] as const) {
    for (const [index, given] of (described[list] ?? []).entries()) {
      try {
        const one = readAutomation(schema, { [list]: [{ ...given, object }] });
        read.triggers.push(...one.triggers);
        read.validationRules.push(...one.validationRules);
      } catch (error) {
        if (!(error instanceof ControlError)) throw error;
        const [where = '', ...message] = error.message.split(' ');
        const inside = where.split(/[.[\]]+/).slice(2);
        faults.push({
          path: ['objects', object, list, String(index), ...inside],
          message: message.join(' '),
        });
      }
    }
  }
  return read;
}

/** With several currencies an org has an object that lists them. */
function withCurrencyType(description: OrgDescription): OrgDescription {
  const { currencies, objects = {} } = description;
  if (currencies === undefined) return description;
  const currencyType: ObjectDescription = {
    label: 'Currency Type',
    plural: 'Currency Types',
    keyPrefix: '01L',
    setup: true,
    access: 'read',
    fields: {
      IsoCode: { type: 'text', length: 3 },
      IsActive: { type: 'checkbox' },
      IsCorporate: { type: 'checkbox' },
    },
  };
  return { ...description, objects: { ...objects, CurrencyType: currencyType } };
}

/** Builds what a description, whose structure is right, says. With any fault the result is of no use. */
export function buildOrg(description: OrgDescription): { built: Built; faults: DescriptionFault[] } {
  const { objects = {}, members } = withCurrencyType(description);
  const building: Building = { description, faults: [] };
  const taken = new Set(Object.values(objects).flatMap(({ keyPrefix }) => keyPrefix ?? []));
  // By name, so that key prefixes do not depend on the order in the file.
  const described = Object.entries(objects).sort(([a], [b]) => (a < b ? -1 : 1));
  const types = described
    .filter(([, { access }]) => access !== 'none')
    .map(([name, object]) => buildObject(building, name, object, taken));
  const schema = createSchema(types);
  for (const type of types) building.faults.push(...checkObject(schema, type, objects[type.name] ?? {}));
  if (members !== undefined) building.faults.push(...checkMembers(schema, members));
  const automations = types.map((type) =>
    readObjectAutomation(building, schema, type.name, objects[type.name] ?? {}),
  );
  const automation: AutomationDeclaration = {
    triggers: automations.flatMap(({ triggers }) => triggers),
    validationRules: automations.flatMap(({ validationRules }) => validationRules),
    requiredFields: [],
  };
  return { built: { description, schema, automation }, faults: building.faults };
}
