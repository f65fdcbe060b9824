import {
  type Field,
  type FieldType,
  isCompound,
  type ObjectType,
  type PicklistValue,
  type RecordType,
  type Schema,
} from '../org/schema.ts';
import type { ApiAnswer, ApiCall, ApiContext } from './api-call.ts';

const SOAP_TYPES: Partial<Record<FieldType, string>> = {
  id: 'tns:ID',
  reference: 'tns:ID',
  boolean: 'xsd:boolean',
  int: 'xsd:int',
  double: 'xsd:double',
  currency: 'xsd:double',
  percent: 'xsd:double',
  date: 'xsd:date',
  datetime: 'xsd:dateTime',
  time: 'xsd:time',
  address: 'urn:address',
  location: 'urn:location',
};

/** Of the record type that every object has. */
const MASTER_ID = '012000000000000AAA';

function picklistEntry({ value, label, active, isDefault }: PicklistValue): object {
  return { active, defaultValue: isDefault, label, value, validFor: null };
}

/** Set by the org in every record: never null, and never written by a client. */
const STAMPS = new Set([
  'CreatedDate',
  'CreatedById',
  'LastModifiedDate',
  'LastModifiedById',
  'SystemModstamp',
  'OwnerId',
]);

/** A value is filled in where none is sent; as the name of a record of an own object its id. */
function hasDefault(field: Field): boolean {
  const isFilled = STAMPS.has(field.name) || field.autoNumberFormat !== undefined || field.fallsBackToId;
  return isFilled || field.defaultValue !== undefined;
}

function isNillable(field: Field): boolean {
  const always = ['id', 'boolean'].includes(field.type) || field.autoNumberFormat !== undefined;
  return !(always || field.required || STAMPS.has(field.name));
}

function describeFlags(field: Field): object {
  const isFilterable = !field.long && !isCompound(field);
  return {
    aggregatable: isFilterable && field.type !== 'multipicklist',
    autoNumber: field.autoNumberFormat !== undefined,
    calculated: field.compute !== undefined && !isCompound(field),
    cascadeDelete: false,
    caseSensitive: field.caseSensitive,
    createable: field.createable,
    custom: field.custom,
    defaultedOnCreate: hasDefault(field),
    dependentPicklist: false,
    deprecatedAndHidden: false,
    encrypted: false,
    externalId: field.externalId,
    filterable: isFilterable,
    groupable: isFilterable && field.type !== 'multipicklist',
    htmlFormatted: field.html,
    idLookup: field.externalId || field.type === 'id',
    nameField: field.name === 'Name',
    namePointing: field.referenceTo.length > 1,
    nillable: isNillable(field),
    permissionable: field.custom && !field.required,
    polymorphicForeignKey: field.referenceTo.length > 1,
    restrictedDelete: false,
    restrictedPicklist: field.restricted,
    sortable: isFilterable && field.type !== 'multipicklist',
    unique: field.unique,
    updateable: field.updateable,
  };
}

function extraTypeInfo(field: Field): string | null {
  if (field.html) return 'richtextarea';
  return field.long ? 'plaintextarea' : null;
}

function describeField(field: Field): object {
  return {
    ...describeFlags(field),
    name: field.name,
    label: field.label,
    type: field.type,
    soapType: SOAP_TYPES[field.type] ?? 'xsd:string',
    length: field.length,
    byteLength: field.length * 3,
    digits: field.type === 'int' ? field.precision : 0,
    precision: field.precision,
    scale: field.scale,
    defaultValue: field.type === 'boolean' ? (field.defaultValue ?? false) : null,
    defaultValueFormula: null,
    calculatedFormula: field.formula === undefined ? null : field.formula.join(" & ' ' & "),
    controllerName: null,
    extraTypeInfo: extraTypeInfo(field),
    picklistValues: field.picklistValues.map(picklistEntry),
    referenceTo: field.referenceTo,
    relationshipName: field.relationshipName ?? null,
    filteredLookupInfo: field.lookupFilter
      ? { controllingFields: [], dependent: false, optionalFilter: false }
      : null,
    inlineHelpText: null,
    compoundFieldName: field.compoundFieldName ?? null,
  };
}

function objectFlags(type: ObjectType): object {
  return {
    name: type.name,
    label: type.label,
    labelPlural: type.pluralLabel,
    keyPrefix: type.keyPrefix,
    custom: type.custom,
    createable: type.writeable,
    updateable: type.writeable,
    deletable: type.deletable,
    undeletable: type.writeable,
    queryable: true,
    retrieveable: true,
    searchable: false,
    replicateable: type.writeable,
    mergeable: false,
    triggerable: type.writeable,
    layoutable: !type.setup,
    activateable: false,
    customSetting: false,
    deprecatedAndHidden: false,
    feedEnabled: false,
    hasSubtypes: false,
    isSubtype: false,
    mruEnabled: false,
  };
}

function objectUrls(call: ApiCall, type: ObjectType): Record<string, string> {
  const sobject = `/services/data/${call.version}/sobjects/${type.name}`;
  return { sobject, describe: `${sobject}/describe`, rowTemplate: `${sobject}/{ID}` };
}

function recordTypeInfo(call: ApiCall, type: ObjectType, given: RecordType, isDefault: boolean): object {
  const { id, developerName, label, available, active } = given;
  return {
    active,
    available,
    defaultRecordTypeMapping: isDefault,
    developerName,
    master: id === MASTER_ID,
    name: label,
    recordTypeId: id,
    urls: { layout: `${objectUrls(call, type).sobject}/describe/layouts/${id}` },
  };
}

/** `Master` is there without any record type too, and the default where none is. */
function recordTypeInfos(call: ApiCall, type: ObjectType): object[] {
  const names = { developerName: 'Master', label: 'Master' };
  const master = {
    id: MASTER_ID,
    ...names,
    available: true,
    active: true,
    isDefault: false,
    picklists: new Map(),
  };
  const hasOther = type.recordTypes.some(({ isDefault }) => isDefault);
  return [
    ...type.recordTypes.map((each) => recordTypeInfo(call, type, each, each.isDefault)),
    recordTypeInfo(call, type, master, !hasOther),
  ];
}

function childRelationships(schema: Schema, type: ObjectType): object[] {
  return schema.objects.flatMap((child) =>
    [...child.fields.values()]
      .filter(({ referenceTo }) => referenceTo.includes(type.name))
      .map(({ name, childRelationshipName = null }) => ({
        cascadeDelete: false,
        childSObject: child.name,
        deprecatedAndHidden: false,
        field: name,
        junctionIdListNames: [],
        junctionReferenceTo: [],
        relationshipName: childRelationshipName,
        restrictedDelete: false,
      })),
  );
}

/** 304 where a time is given since which the object has not changed (REST guide, Get Object Metadata Changes). */
function isUnchanged(call: ApiCall, changedAt: number): boolean {
  const since = Date.parse(call.header('if-modified-since') ?? '');
  return !Number.isNaN(since) && since >= changedAt;
}

/** `GET /sobjects/X/describe`: what the user may see of an object. */
export function describeObject({ org }: ApiContext, call: ApiCall, type: ObjectType): ApiAnswer {
  const changedAt = org.changedAt(type);
  if (isUnchanged(call, changedAt)) return { status: 304 };
  const body = {
    ...objectFlags(type),
    fields: [...type.fields.values()].map(describeField),
    childRelationships: childRelationships(org.schema, type),
    recordTypeInfos: recordTypeInfos(call, type),
    urls: objectUrls(call, type),
  };
  return { status: 200, body, headers: { 'Last-Modified': new Date(changedAt).toUTCString() } };
}

/** `GET /sobjects`: the objects that the user may see. */
export function describeGlobal({ org }: ApiContext, call: ApiCall): ApiAnswer {
  const sobjects = org.schema.objects.map((type) => ({ ...objectFlags(type), urls: objectUrls(call, type) }));
  return { status: 200, body: { encoding: 'UTF-8', maxBatchSize: 200, sobjects } };
}
