import type { Finding } from './finding.ts';
import { children, childText, type XmlDocument, type XmlNode } from './package-files.ts';
import { nameOf, objectOf, readSchema, type Schema } from './schema.ts';

// The standard objects that a package like this may name. Any other name is far more often a misspelling.
const STANDARD_OBJECTS = new Set([
  'Account',
  'Asset',
  'Campaign',
  'Case',
  'Contact',
  'Lead',
  'Opportunity',
  'User',
]);
// A person's name is one compound field that every reader of the record sees; an org refuses permissions for it.
const NAME_FIELDS = new Set(['Name', 'FirstName', 'LastName', 'Salutation', 'MiddleName', 'Suffix']);
const LOOKUPS = new Set(['Lookup', 'MasterDetail']);
// What an org demands beside a permission, else it refuses the permission set.
const IMPLIED: Record<string, string[]> = {
  allowCreate: ['allowRead'],
  allowEdit: ['allowRead'],
  allowDelete: ['allowRead', 'allowEdit'],
  viewAllRecords: ['allowRead'],
  modifyAllRecords: ['allowRead', 'allowEdit', 'allowDelete', 'viewAllRecords'],
};

/**
 * What one file says about another is true: lookup targets, permissions, apps, and the defaults of picklists.
 * An org checks this at deployment only; the Salesforce tools do not check it offline.
 */
export function checkReferences(directory: string): Finding[] {
  const schema = readSchema(directory);
  const check = (documents: Iterable<XmlDocument>, faults: (document: XmlDocument) => string[]) =>
    [...documents].flatMap((document) =>
      faults(document).map((message) => ({ check: 'references' as const, file: document.file, message })),
    );
  const fields = [...schema.fields.values()].map((field) => field.document);
  return [
    ...check(fields, (field) => [...checkField(field, schema), ...checkPicklist(field)]),
    ...check(schema.permissionSets, (set) => checkPermissionSet(set, schema)),
    ...check(schema.appParts, (part) => checkApp(part, schema)),
    ...check(schema.pages, (page) => checkPage(page, schema)),
  ];
}

function isKnownObject(name: string, schema: Schema): boolean {
  return schema.objects.has(name) || STANDARD_OBJECTS.has(name);
}

function checkField(document: XmlDocument, schema: Schema): string[] {
  const messages: string[] = [];
  const fullName = childText(document.root, 'fullName');
  const object = objectOf(document);
  if (fullName !== nameOf(document)) messages.push(`fullName "${fullName}" is not the name of the file.`);
  if (!isKnownObject(object, schema)) messages.push(`The object ${object} is not in the package.`);
  if (LOOKUPS.has(childText(document.root, 'type') ?? '')) {
    const target = childText(document.root, 'referenceTo') ?? '';
    if (!isKnownObject(target, schema)) {
      messages.push(`The lookup target "${target}" is neither in the package nor a known standard object.`);
    }
  }
  return messages;
}

function checkPicklist(document: XmlDocument): string[] {
  const values = children(document.root, 'valueSet')
    .flatMap((set) => children(set, 'valueSetDefinition'))
    .flatMap((definition) => children(definition, 'value'));
  const names = values.map((value) => childText(value, 'fullName'));
  const defaults = values.filter((value) => childText(value, 'default') === 'true');
  const repeated = names.filter((name, index) => names.indexOf(name) !== index);
  return [
    ...repeated.map((name) => `The picklist value "${name}" stands twice.`),
    ...(defaults.length > 1 ? [`The picklist has ${defaults.length} default values.`] : []),
  ];
}

function checkPermissionSet(document: XmlDocument, schema: Schema): string[] {
  const objects = new Map(
    children(document.root, 'objectPermissions').map((each) => [childText(each, 'object') ?? '', each]),
  );
  return [
    ...[...objects].flatMap(([name, permission]) => checkObjectPermission(name, permission, schema)),
    ...children(document.root, 'fieldPermissions').flatMap((each) =>
      checkFieldPermission(each, objects, schema),
    ),
  ];
}

function checkObjectPermission(name: string, permission: XmlNode, schema: Schema): string[] {
  if (!isKnownObject(name, schema)) return [`The object "${name}" of a permission does not exist.`];
  return Object.entries(IMPLIED)
    .filter(([granted]) => childText(permission, granted) === 'true')
    .flatMap(([granted, implied]) =>
      implied
        .filter((needed) => childText(permission, needed) !== 'true')
        .map((needed) => `${name}: ${granted} needs ${needed}.`),
    );
}

function checkFieldPermission(permission: XmlNode, objects: Map<string, XmlNode>, schema: Schema): string[] {
  const name = childText(permission, 'field') ?? '';
  const [object = '', field = ''] = name.split('.');
  if (schema.objects.has(object) || field.endsWith('__c')) {
    const declared = schema.fields.get(name);
    if (!declared) return [`The field "${name}" of a permission does not exist.`];
    if (declared.required) return [`${name} is required: an org refuses a permission for it.`];
  } else if (NAME_FIELDS.has(field)) {
    return [`${name} is part of the name: an org refuses a permission for it.`];
  }
  return checkObjectOfField(name, permission, objects.get(object));
}

function checkObjectOfField(name: string, field: XmlNode, object: XmlNode | undefined): string[] {
  if (childText(object, 'allowRead') !== 'true') return [`${name} is readable, but its object is not.`];
  const editable = childText(field, 'editable') === 'true';
  const writable = childText(object, 'allowEdit') === 'true' || childText(object, 'allowCreate') === 'true';
  return editable && !writable ? [`${name} is editable, but its object is not.`] : [];
}

function checkApp(document: XmlDocument, schema: Schema): string[] {
  const name = childText(document.root, 'externalClientApplication') ?? '';
  return schema.apps.has(name) ? [] : [`The external client app "${name}" is not in the package.`];
}

/** The own fields that a layout or list view shows, and the object of a tab. */
function checkPage(document: XmlDocument, schema: Schema): string[] {
  if (document.rootName === 'CustomTab') {
    return schema.objects.has(nameOf(document)) ? [] : ['The object of the tab is not in the package.'];
  }
  const isLayout = document.rootName === 'Layout';
  const object = isLayout ? (nameOf(document).split('-')[0] ?? '') : objectOf(document);
  const shown = isLayout
    ? children(document.root, 'layoutSections')
        .flatMap((section) => children(section, 'layoutColumns'))
        .flatMap((column) => children(column, 'layoutItems'))
        .map((item) => childText(item, 'field') ?? '')
    : children(document.root, 'columns').map(String);
  return shown
    .filter((field) => field.endsWith('__c') && !schema.fields.has(`${object}.${field}`))
    .map((field) => `The field "${object}.${field}" is not in the package.`);
}
