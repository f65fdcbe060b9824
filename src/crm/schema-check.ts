import type { Misfit, Need } from '../records/org-fit.ts';
import type { OrgType } from '../records/org-types.ts';
import type { Constant, Field, Resource } from '../records/resource.ts';
import { searchedFields } from '../records/search.ts';
import { type Described, type DescribedField, type DescribedObject, isRequired } from './describe.ts';
import { columnOf, isNotThere } from './usable-columns.ts';

export interface Checked {
  misfits: Misfit[];
  missing: Set<string>;
  types: Map<string, OrgType>;
  values: Map<string, readonly string[]>;
  lengths: Map<string, number>;
  /** UTF-16 code units of each column of a long text, by API name. */
  sizes: Map<string, number>;
  slow: string[];
}

const texts = ['string', 'textarea', 'picklist', 'combobox', 'email', 'phone', 'url', 'encryptedstring'];
const numbers = ['double', 'currency', 'percent'];
const kinds: Partial<Record<Field['kind'], readonly string[]>> = {
  uuid: ['string', 'textarea', 'picklist', 'combobox'],
  text: [...texts, 'multipicklist'],
  json: ['textarea', 'string'],
  timestamp: ['datetime'],
  boolean: ['boolean'],
};
/** Characters that the service itself writes. What callers write the CRM may refuse for its length. */
const ownLengths: Readonly<Record<string, number>> = {
  id: 36,
  trip_id: 36,
  consumer_id: 64,
  consumer_name: 255,
  actor: 255,
};
/** Texts of the service itself: no e-mail addresses, and no values that the org could list. */
const ownTexts = ['consumer_id', 'consumer_name', 'actor'];
/** Characters of a text area that isn't long. */
const shortTextArea = 255;
type Reason = Pick<Misfit, 'kind' | 'problem'>;

const readOrWrite: readonly Need[] = ['read', 'write', 'filter'];
const everything: readonly Need[] = [...readOrWrite, 'create', 'delete'];
const mayNotBeWritten: Reason = {
  kind: 'permission',
  problem: "can't be written by the integration user",
};

const mayNotBeDeleted: Fault = {
  kind: 'permission',
  problem: "can't be deleted by the integration user",
  needs: ['delete'],
};
const mayNotSeeAll: Fault = {
  kind: 'permission',
  problem:
    "isn't fully visible: the integration user lacks View All Records, so it can't see others' records if the object is private",
  needs: ['see all'],
};

const typeRules: Readonly<Record<string, (field: DescribedField) => OrgType>> = {
  picklist: ({ restrictedPicklist, values, length }) =>
    restrictedPicklist ? { kind: 'choice', values } : { kind: 'text', maxLength: length || 255 },
  multipicklist: ({ restrictedPicklist, values }) => ({
    kind: 'choices',
    ...(restrictedPicklist && { values }),
  }),
  int: ({ digits }) => ({ kind: 'number', whole: digits || 10, decimals: 0 }),
  boolean: () => ({ kind: 'boolean' }),
  date: () => ({ kind: 'date' }),
  datetime: () => ({ kind: 'timestamp' }),
};

/** The type that a field of the org has in the API; undefined for those that the API does not have. */
export function typeOf(field: DescribedField): OrgType | undefined {
  const { type, length, precision, scale } = field;
  const rule = Object.hasOwn(typeRules, type) ? typeRules[type] : undefined;
  if (rule !== undefined) return rule(field);
  if (texts.includes(type)) return { kind: 'text', maxLength: length || 255 };
  if (!numbers.includes(type)) return undefined;
  return { kind: 'number', whole: Math.max(0, precision - scale), decimals: scale };
}

/**
 * Compares a resource with the description of its object: fields that the integration user can't see are left out of it,
 * like those that are not there. Validation rules, layouts and triggers may demand more. `memberObject`: where lookups lead.
 */
export function checkResource(resource: Resource, described: Described, memberObject: string): Checked {
  const checked: Checked = {
    misfits: [],
    missing: new Set(),
    types: new Map(),
    values: new Map(),
    lengths: new Map(),
    sizes: new Map(),
    slow: [],
  };
  const object = described.get(resource.crmObject.toLowerCase());
  if (object === undefined) return checked;
  checked.misfits.push(...objectFaults(resource, object).map((fault) => ({ column: null, ...fault })));
  if (object === null) return checked;
  const byName = new Map(object.fields.map((field) => [field.name.toLowerCase(), field]));
  for (const [name, field] of Object.entries(resource.fields)) {
    if (field.isAbsent) continue;
    const found = byName.get(columnOf(field.crm).toLowerCase());
    const one = { resource, name, field, memberObject };
    checkField(one, found, checked);
    checkContinuations(
      one,
      [found, ...(field.crm.continuations ?? []).map((column) => byName.get(column.toLowerCase()))],
      checked,
    );
  }
  if (resource.name === 'member') return checked;
  checked.misfits.push(
    ...constantFaults(resource, object, byName),
    ...requiredFaults(resource, object),
    ...statusFaults(resource, byName),
  );
  return checked;
}

function statusFaults({ fields, fit }: Resource, byName: ReadonlyMap<string, DescribedField>): Misfit[] {
  const { crm, isAbsent } = fields['status'] ?? {};
  const column = crm && !isAbsent ? columnOf(crm) : '';
  const found = byName.get(column.toLowerCase());
  // That new records get none is a fault of its own.
  if (found === undefined || !takes(found, 'created')) return [];
  const refused = fit.laterStatuses.filter((value) => !takes(found, value));
  if (refused.length === 0) return [];
  const values = `${refused.length > 1 ? 'values' : 'value'} ${refused.join(', ')}`;
  const problem = `doesn't accept the ${values}, which reservations' bookings get`;
  return [{ kind: 'values', column, problem, needs: [] }];
}

interface Fault extends Reason {
  needs: readonly Need[];
}

function objectFaults(resource: Resource, object: DescribedObject | null): Fault[] {
  if (object === null) return [{ ...isNotThere, needs: everything }];
  const { queryable, createable, updateable, deletable, seesAll } = object;
  if (!queryable)
    return [{ kind: 'permission', problem: "can't be read by the integration user", needs: everything }];
  const ofSharing: Fault[] = seesAll === false ? [mayNotSeeAll] : [];
  if (resource.name === 'member') return ofSharing;
  if (createable && updateable) return deletable === false ? [...ofSharing, mayNotBeDeleted] : ofSharing;
  const needs: Need[] = deletable === false ? ['write', 'create', 'delete'] : ['write', 'create'];
  return [...ofSharing, { ...mayNotBeWritten, needs }];
}

interface FieldToCheck {
  resource: Resource;
  name: string;
  field: Field;
  memberObject: string;
}

function checkField(one: FieldToCheck, found: DescribedField | undefined, checked: Checked): void {
  const { name, field } = one;
  const column = columnOf(field.crm);
  const isOptional = field.optional !== undefined;
  const fault = found === undefined ? isNotThere : faultOf(one, found);
  if (fault !== undefined) {
    if (isOptional) checked.missing.add(column.toLowerCase());
    if (found !== undefined || !field.isSpare)
      checked.misfits.push({ ...fault, name, column, needs: isOptional ? [] : fault.needs });
  }
  if (found === undefined) return;
  if (field.indexed && !hasIndex(found)) checked.slow.push(column);
  noteType(one, found, checked);
}

function noteType({ name, field }: FieldToCheck, found: DescribedField, checked: Checked): void {
  if (found.type === 'picklist' && found.restrictedPicklist) checked.values.set(name, found.values);
  if (found.length > 0) checked.lengths.set(name, found.length);
  const type = field.added && typeOf(found);
  if (type !== undefined) checked.types.set(name, type);
}

function hasIndex({ externalId, unique }: DescribedField): boolean {
  return externalId || unique;
}

function checkContinuations(
  { name, field }: FieldToCheck,
  columns: readonly (DescribedField | undefined)[],
  checked: Checked,
): void {
  if (field.columns === undefined) return;
  for (const [index, column] of (field.crm.continuations ?? []).entries()) {
    const found = columns[index + 1];
    const reason =
      found === undefined
        ? isNotThere
        : (spellingFault(column, found.name) ?? sizeFault(field, found) ?? writeFault(found));
    if (reason === undefined) continue;
    checked.missing.add(column.toLowerCase());
    checked.misfits.push({ ...reason, name, column, needs: [] });
  }
  const lengths = columns.flatMap((found, index) => {
    // A short one that is left out does not make the others shorter.
    const isUsed = found !== undefined && (index === 0 || sizeFault(field, found) === undefined);
    return isUsed && found.length > 0 ? [found.length] : [];
  });
  if (lengths.length > 0) checked.sizes.set(name, Math.min(...lengths));
}

function faultOf(one: FieldToCheck, found: DescribedField): Fault | undefined {
  const { resource, name, field } = one;
  const ofName = nameFault(field, found);
  if (ofName !== undefined) return { ...ofName, needs: readOrWrite };
  const ofType = typeFault(one, found);
  if (ofType !== undefined) return { ...ofType, needs: readOrWrite };
  const isWritten = resource.name !== 'member' && isWrittenField(name, field);
  const ofWrites = isWritten ? writtenFault(name, field, found) : undefined;
  if (ofWrites !== undefined) return { ...ofWrites, needs: ['write'] };
  return filterFault(one, found) ?? (isWritten ? sizeFault(field, found) : undefined);
}

function filterFault(
  { resource, name, field }: FieldToCheck,
  { filterable }: DescribedField,
): Fault | undefined {
  const isCompared = field.filter || searchedFields(resource).includes(name);
  return isCompared && !filterable
    ? { kind: 'mismatch', problem: "can't be used in filters", needs: ['filter'] }
    : undefined;
}

function nameFault({ crm }: Field, found: DescribedField): Reason | undefined {
  const [relationship = ''] = crm.path.split('.');
  return crm.lookupColumn === undefined
    ? spellingFault(crm.path, found.name)
    : spellingFault(relationship, found.relationshipName ?? '');
}

function spellingFault(given: string, name: string): Reason | undefined {
  const isOther = given !== name && given.toLowerCase() === name.toLowerCase();
  return isOther ? mismatch(`is called ${name} in Salesforce; spell it that way in the mapping`) : undefined;
}

function mismatch(problem: string): Reason {
  return { kind: 'mismatch', problem };
}

function isWrittenField(name: string, { kind, writable, added, optional }: Field): boolean {
  return writable || optional !== undefined || (added === undefined && kind !== 'timestamp') || name === 'id';
}

function writtenFault(name: string, field: Field, found: DescribedField): Reason | undefined {
  const { optional, crm } = field;
  const ofValue = valueFault(name, field, found) ?? lengthFault(name, found);
  if (ofValue !== undefined) return ofValue;
  if (name === 'status' && !takes(found, 'created'))
    return { kind: 'values', problem: "doesn't accept the value created, which new records get" };
  // A master-detail relationship may be set for good: then a change of the member is refused, and nothing else.
  return writeFault(found, name === 'id' || optional !== undefined || crm.lookupColumn !== undefined);
}

function lengthFault(name: string, { length }: DescribedField): Reason | undefined {
  const needed = ownLengths[name] ?? 0;
  if (length === 0 || length >= needed) return undefined;
  return { kind: 'length', problem: `holds ${length} characters, but needs ${needed}` };
}

function writeFault(
  { createable, updateable, calculated, autoNumber }: DescribedField,
  isCreatedOnly = false,
): Reason | undefined {
  if (createable && (updateable || isCreatedOnly)) return undefined;
  const what = calculated ? 'a formula' : 'an auto-number';
  return calculated || autoNumber
    ? { kind: 'read only', problem: `is ${what}, which nobody can write` }
    : mayNotBeWritten;
}

function typeFault({ name, field, memberObject }: FieldToCheck, found: DescribedField): Reason | undefined {
  if (field.added !== undefined)
    return typeOf(found) === undefined
      ? mismatch(`has the type ${found.type}, which the API doesn't support`)
      : undefined;
  if (field.crm.lookupColumn !== undefined) return lookupFault(field, found, memberObject);
  const fitting = kinds[field.kind] ?? [];
  if (!fitting.includes(found.type)) return mistyped(found, fitting);
  if (name !== 'id') return undefined;
  if (!found.unique) return { kind: 'key', problem: "isn't unique" };
  return found.externalId ? lengthFault(name, found) : { kind: 'key', problem: "isn't an external ID" };
}

function mistyped({ type }: DescribedField, fitting: readonly string[]): Reason {
  return mismatch(`has the type ${type}, but must be ${fitting.slice(0, 2).join(' or ')}`);
}

/** Why the service's values are refused; undefined where they fit. */
function valueFault(name: string, { kind, crm }: Field, found: DescribedField): Reason | undefined {
  const { type, restrictedPicklist } = found;
  const isOwn = ownTexts.includes(name);
  if (type === 'email' && (isOwn || name === 'status')) return mistyped(found, texts);
  return restrictedPicklist && (isOwn || (kind === 'uuid' && crm.lookupColumn === undefined))
    ? mismatch('is a restricted picklist, but must take any text')
    : undefined;
}

/** No request needs it: what fits is written all the same. */
function sizeFault({ kind }: Field, { length }: DescribedField): Fault | undefined {
  return kind === 'json' && length > 0 && length <= shortTextArea
    ? { kind: 'length', problem: `holds ${length} characters, but must be a long text`, needs: [] }
    : undefined;
}

function lookupFault({ crm }: Field, found: DescribedField, target: string): Reason | undefined {
  if (found.type !== 'reference') return mismatch(`has the type ${found.type}, but must be a lookup`);
  const relationship = crm.path.split('.')[0] ?? '';
  if (found.relationshipName?.toLowerCase() !== relationship.toLowerCase())
    return mismatch(`has the relationship ${found.relationshipName ?? 'null'}, not ${relationship}`);
  if (!found.referenceTo.some((object) => object.toLowerCase() === target.toLowerCase()))
    return mismatch(`points to ${found.referenceTo.join(', ')}, not to ${target}`);
  return found.referenceTo.length > 1
    ? mismatch(
        `points to several objects (${found.referenceTo.join(', ')}), so Salesforce takes no external ID for it; it must be a lookup to ${target} alone`,
      )
    : undefined;
}

function constantFaults(
  { constants = {} }: Resource,
  object: DescribedObject,
  byName: ReadonlyMap<string, DescribedField>,
): Misfit[] {
  return Object.entries(constants).flatMap(([column, value]) => {
    const reason = constantFault(value, object, byName.get(column.toLowerCase()));
    return reason === undefined ? [] : [{ ...reason, column, needs: ['create' as const] }];
  });
}

function constantFault(
  value: Constant,
  { recordTypes }: DescribedObject,
  found: DescribedField | undefined,
): Reason | undefined {
  if (found === undefined) return isNotThere;
  if (typeof value === 'object') {
    const wanted = value.recordType.toLowerCase();
    const type = recordTypes.find(({ developerName }) => developerName.toLowerCase() === wanted);
    if (type === undefined) return { kind: 'unset', problem: `has no record type ${value.recordType}` };
    if (!type.available)
      return {
        kind: 'permission',
        problem: `has the record type ${value.recordType}, which the integration user can't use`,
      };
  }
  if (!found.createable) return mayNotBeWritten;
  if (typeof value === 'object') return undefined;
  return isOfType(value, found)
    ? undefined
    : { kind: 'unset', problem: `doesn't accept the constant ${String(value)}` };
}

function isOfType(value: string | number | boolean, found: DescribedField): boolean {
  const { type, length } = found;
  if (type === 'boolean') return typeof value === 'boolean';
  if (type === 'int' || numbers.includes(type)) return typeof value === 'number';
  if (typeof value !== 'string') return false;
  return takes(found, value) && (length === 0 || value.length <= length);
}

function takes({ type, restrictedPicklist, values }: DescribedField, value: string): boolean {
  const isBound = restrictedPicklist && (type === 'picklist' || type === 'multipicklist');
  return !isBound || value.split(type === 'multipicklist' ? ';' : '\n').every((one) => values.includes(one));
}

function requiredFaults({ fields, constants = {} }: Resource, object: DescribedObject): Misfit[] {
  // What a caller may leave out is not sure to be set.
  const sure = Object.entries(fields).filter(
    ([name, { added, isAbsent, optional, required, writable }]) =>
      !isAbsent &&
      optional === undefined &&
      (added ? required : writable || name === 'id' || name === 'status'),
  );
  const set = [...sure.map(([, { crm }]) => columnOf(crm)), ...Object.keys(constants)].map((one) =>
    one.toLowerCase(),
  );
  return object.fields
    .filter(isRequired)
    .filter(({ name }) => !set.includes(name.toLowerCase()))
    .map((field) => ({
      kind: typeOf(field) === undefined ? 'constant' : 'unset',
      column: field.name,
      needs: ['create' as const],
      problem: "is required in new records, but the mapping doesn't set it",
    }));
}
