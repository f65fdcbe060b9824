import type { Field, ObjectType, Row } from './schema.ts';
import { defineField } from './schema.ts';

const READ_ONLY = { createable: false, updateable: false } as const;

function text(name: string, length: number, more: Partial<Field> = {}): Field {
  return defineField({ name, type: 'string', length, ...more });
}

function lookup(name: string, referenceTo: string, more: Partial<Field> = {}): Field {
  return defineField({
    name,
    type: 'reference',
    length: 18,
    referenceTo,
    relationshipName: name.replace(/Id$/, ''),
    ...more,
  });
}

/** The fields that every object has and that only the org itself writes. */
export function systemFields(): Field[] {
  return [
    defineField({ name: 'Id', type: 'id', length: 18, ...READ_ONLY }),
    defineField({ name: 'IsDeleted', type: 'boolean', defaultValue: false, ...READ_ONLY }),
    lookup('OwnerId', 'User'),
    defineField({ name: 'CreatedDate', type: 'datetime', ...READ_ONLY }),
    lookup('CreatedById', 'User', READ_ONLY),
    defineField({ name: 'LastModifiedDate', type: 'datetime', ...READ_ONLY }),
    lookup('LastModifiedById', 'User', READ_ONLY),
    defineField({ name: 'SystemModstamp', type: 'datetime', ...READ_ONLY }),
  ];
}

export function fieldMap(fields: Field[]): Map<string, Field> {
  return new Map(fields.map((field) => [field.name.toLowerCase(), field]));
}

function fullName(row: Row): string | undefined {
  const name = [row.FirstName, row.LastName].filter((part) => part !== undefined).join(' ');
  return name === '' ? undefined : name;
}

function address(prefix: string): Field[] {
  return [
    defineField({ name: `${prefix}Street`, type: 'textarea', length: 255 }),
    text(`${prefix}City`, 40),
    text(`${prefix}State`, 80),
    text(`${prefix}PostalCode`, 20),
    text(`${prefix}Country`, 80),
  ];
}

function contact(): ObjectType {
  const phones = ['Phone', 'MobilePhone', 'HomePhone', 'OtherPhone', 'Fax'];
  return {
    name: 'Contact',
    label: 'Contact',
    pluralLabel: 'Contacts',
    keyPrefix: '003',
    custom: false,
    writeable: true,
    fields: fieldMap([
      ...systemFields(),
      lookup('AccountId', 'Account', { childRelationshipName: 'Contacts' }),
      text('LastName', 80, { required: true }),
      text('FirstName', 40),
      defineField({
        name: 'Salutation',
        type: 'picklist',
        length: 40,
        picklistValues: ['Mr.', 'Ms.', 'Dr.'],
      }),
      text('Name', 121, { ...READ_ONLY, compute: fullName }),
      ...address('Mailing'),
      ...phones.map((name) => defineField({ name, type: 'phone', length: 40 })),
      defineField({ name: 'Email', type: 'email', length: 80 }),
      text('Title', 128),
      text('Department', 80),
      defineField({ name: 'LeadSource', type: 'picklist', length: 255, picklistValues: ['Web', 'Other'] }),
      defineField({ name: 'Birthdate', type: 'date' }),
      defineField({ name: 'Description', type: 'textarea', length: 32000, long: true }),
    ]),
  };
}

function account(): ObjectType {
  return {
    name: 'Account',
    label: 'Account',
    pluralLabel: 'Accounts',
    keyPrefix: '001',
    custom: false,
    writeable: true,
    fields: fieldMap([
      ...systemFields(),
      text('Name', 255, { required: true }),
      lookup('ParentId', 'Account', { childRelationshipName: 'ChildAccounts' }),
      defineField({
        name: 'Type',
        type: 'picklist',
        length: 255,
        picklistValues: ['Prospect', 'Customer', 'Other'],
      }),
      ...address('Billing'),
      defineField({ name: 'Phone', type: 'phone', length: 40 }),
      defineField({ name: 'Fax', type: 'phone', length: 40 }),
      text('AccountNumber', 40),
      defineField({ name: 'Website', type: 'url', length: 255 }),
      text('Industry', 255),
      defineField({ name: 'AnnualRevenue', type: 'currency', precision: 18, scale: 0 }),
      defineField({ name: 'NumberOfEmployees', type: 'int', precision: 8 }),
      defineField({ name: 'Description', type: 'textarea', length: 32000, long: true }),
    ]),
  };
}

/** Read only here: the org has one user, the one that the app runs as. */
function user(): ObjectType {
  const plain = systemFields().filter((field) => !['IsDeleted', 'OwnerId'].includes(field.name));
  return {
    name: 'User',
    label: 'User',
    pluralLabel: 'Users',
    keyPrefix: '005',
    custom: false,
    writeable: false,
    fields: fieldMap([
      ...plain,
      text('Username', 80),
      text('LastName', 80),
      text('FirstName', 40),
      text('Name', 121, { ...READ_ONLY, compute: fullName }),
      defineField({ name: 'Email', type: 'email', length: 128 }),
      defineField({ name: 'IsActive', type: 'boolean', defaultValue: true }),
    ]),
  };
}

/** The standard objects built in, each new on every call so that a package may add fields to it. */
export function standardObjects(): ObjectType[] {
  return [account(), contact(), user()];
}
