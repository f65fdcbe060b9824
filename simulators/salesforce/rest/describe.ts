import type { Field, FieldType, ObjectType } from '../org/schema.ts';
import type { ApiCall } from './api-call.ts';

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
};

function picklistEntry(field: Field, value: string): object {
  return { active: true, defaultValue: field.defaultValue === value, label: value, value, validFor: null };
}

function hasDefault(field: Field): boolean {
  return field.defaultValue !== undefined || field.autoNumberFormat !== undefined || field.name === 'OwnerId';
}

function isNillable(field: Field): boolean {
  const always = ['id', 'boolean'].includes(field.type) || field.autoNumberFormat !== undefined;
  return !(always || field.required);
}

function describeFlags(field: Field): object {
  return {
    autoNumber: field.autoNumberFormat !== undefined,
    calculated: field.compute !== undefined,
    caseSensitive: field.caseSensitive,
    createable: field.createable,
    custom: field.custom,
    defaultedOnCreate: hasDefault(field),
    externalId: field.externalId,
    filterable: !field.long,
    groupable: !field.long,
    idLookup: field.externalId || field.type === 'id',
    nameField: field.name === 'Name',
    nillable: isNillable(field),
    permissionable: field.custom && !field.required,
    restrictedPicklist: field.restricted,
    sortable: !field.long,
    unique: field.unique,
    updateable: field.updateable,
  };
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
    extraTypeInfo: field.long ? 'plaintextarea' : null,
    picklistValues: field.picklistValues.map((value) => picklistEntry(field, value)),
    referenceTo: field.referenceTo === undefined ? [] : [field.referenceTo],
    relationshipName: field.relationshipName ?? null,
    inlineHelpText: null,
    compoundFieldName: null,
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
    deletable: type.writeable,
    undeletable: false,
    queryable: true,
    retrieveable: true,
    searchable: false,
    replicateable: type.writeable,
    mergeable: false,
    triggerable: type.writeable,
    layoutable: true,
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

export function describeObject(call: ApiCall, type: ObjectType): object {
  return {
    ...objectFlags(type),
    fields: [...type.fields.values()].map(describeField),
    recordTypeInfos: [],
    urls: objectUrls(call, type),
  };
}
