import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Described, type DescribedObject, isManaged } from '../../crm/describe.ts';
import { columnOf } from '../../crm/usable-columns.ts';
import { listOf, type Resources } from '../../records/mapping.ts';
import type { Field, Resource } from '../../records/resource.ts';
import {
  customField,
  customObject,
  type FieldMetadata,
  manifest,
  type ObjectPermission,
  permissionSet,
  projectFile,
} from './metadata.ts';

const permissionSetName = 'Handoff_Gateway';
const source = 'force-app/main/default';

export interface Package {
  files: Map<string, string>;
  left: string[];
}

export function packageFiles(resources: Resources, described: Described, apiVersion: string): Package {
  const files = new Map<string, string>();
  const left: string[] = [];
  const members: Record<string, string[]> = {
    CustomField: [],
    CustomObject: [],
    PermissionSet: [permissionSetName],
  };
  const permissions: ObjectPermission[] = [];
  for (const resource of listOf(resources)) {
    const object = described.get(resource.crmObject.toLowerCase()) ?? null;
    const folder = `${source}/objects/${resource.crmObject}`;
    if (object === null && isManaged(resource.crmObject)) {
      left.push(`${resource.crmObject}: ${ofPackage}`);
      continue;
    }
    if (object === null && addObject(resource, files, folder, left))
      members['CustomObject']?.push(resource.crmObject);
    for (const made of missingFields(resource, object, resources.member.crmObject, left)) {
      files.set(`${folder}/fields/${made.fullName}.field-meta.xml`, customField(made));
      members['CustomField']?.push(`${resource.crmObject}.${made.fullName}`);
    }
    permissions.push(permissionOf(resource, object));
  }
  files.set(
    `${source}/permissionsets/${permissionSetName}.permissionset-meta.xml`,
    permissionSet([...permissions, ...whatTheyNeed(permissions)], {
      seesUsers: listOf(resources).some((resource) => 'owner' in resource),
    }),
  );
  files.set('manifest/package.xml', manifest(members, apiVersion));
  files.set('sfdx-project.json', projectFile(apiVersion));
  return { files, left };
}

/** Writes the files into a new or empty directory. Throws where it holds something, and what the file system does. */
export async function writePackage(directory: string, files: ReadonlyMap<string, string>): Promise<void> {
  await mkdir(directory, { recursive: true });
  if ((await readdir(directory)).length > 0) throw new Error("the directory isn't empty");
  for (const [path, text] of files) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
}

function addObject(
  { crmObject, name, fields }: Resource,
  files: Map<string, string>,
  folder: string,
  left: string[],
): boolean {
  if (!/__c$/i.test(crmObject)) {
    left.push(`${crmObject}: it's a standard object, so give the integration user permission to see it.`);
    return false;
  }
  const hasNamedRecords = Object.values(fields).some(({ crm, isAbsent }) => !isAbsent && crm.path === 'Name');
  files.set(
    `${folder}/${crmObject}.object-meta.xml`,
    customObject({ label: labelOf(crmObject), name, hasNamedRecords }),
  );
  return true;
}

function missingFields(
  resource: Resource,
  object: DescribedObject | null,
  memberObject: string,
  left: string[],
): FieldMetadata[] {
  const there = new Set(object?.fields.map(({ name }) => name.toLowerCase()) ?? ['name']);
  const isMissing = (column: string) => !there.has(column.toLowerCase());
  const needed = Object.entries(resource.fields).filter(
    ([, { isAbsent, kind }]) => !isAbsent && kind !== 'timestamp',
  );
  const missing = needed.flatMap(([name, field]) =>
    columnsOf(field)
      .filter(isMissing)
      .map((column) => ({ name, field, column, reason: whyNotMade(column, field) })),
  );
  const constants = Object.keys(resource.constants ?? {}).filter(isMissing);
  const unknown = constants.map((column) => ({
    column,
    reason: isManaged(column) ? ofPackage : 'the mapping sets it, so create it with the type you want.',
  }));
  for (const { column, reason } of [...missing, ...unknown])
    if (reason !== undefined) left.push(`${resource.crmObject}.${column}: ${reason}`);
  return missing
    .filter(({ reason }) => reason === undefined)
    .map(({ name, field, column }) => ({
      ...fieldMetadata(name, field, memberObject, resource),
      fullName: column,
      label: labelOf(column),
    }));
}

const ofPackage =
  'it belongs to a managed package, so install the package or give the integration user permission to see it.';

function columnsOf({ crm }: Field): string[] {
  return [columnOf(crm), ...(crm.continuations ?? [])];
}

function whyNotMade(column: string, { added }: Field): string | undefined {
  if (isManaged(column)) return ofPackage;
  if (added !== undefined) return '`add` lists it, so create it with the type you want.';
  return /__c$/i.test(column)
    ? undefined
    : "it's a standard Salesforce field, so give the integration user permission to see it.";
}

function fieldMetadata(
  name: string,
  field: Field,
  memberObject: string,
  { collection }: Resource,
): Omit<FieldMetadata, 'fullName' | 'label'> {
  if (name === 'id') return { type: 'Text', length: 36, externalId: true, unique: true };
  if (field.crm.lookupColumn !== undefined)
    return { type: 'Lookup', referenceTo: memberObject, relationshipName: capital(collection) };
  if (field.kind === 'boolean') return { type: 'Checkbox' };
  if (field.columns !== undefined) return { type: 'LongTextArea', length: 131_072 };
  if (name === 'status')
    return { type: 'Picklist', values: ['created', 'pending', 'confirmed', 'cancelled'] };
  if (name === 'email') return { type: 'Email' };
  if (name === 'phone') return { type: 'Phone' };
  return textMetadata(field);
}

function textMetadata(field: Field): Omit<FieldMetadata, 'fullName' | 'label'> {
  if (field.kind === 'uuid') return { type: 'Text', length: 36, externalId: true, unique: false };
  const { maxLength = 255 } = field.schema as { maxLength?: number };
  return { type: 'Text', length: maxLength, ...(field.indexed && { externalId: true }), unique: false };
}

function permissionOf(resource: Resource, object: DescribedObject | null): ObjectPermission {
  const isWritten = resource.name !== 'member';
  const byName = new Map(object?.fields.map((field) => [field.name.toLowerCase(), field]));
  const fields = Object.values(resource.fields)
    .filter(({ isAbsent, kind, added }) => !isAbsent && (kind !== 'timestamp' || added !== undefined))
    .flatMap((field) =>
      columnsOf(field).map((column) => ({ column, isEditable: isWritten && isEdited(field) })),
    );
  const constants = Object.keys(resource.constants ?? {}).map((column) => ({ column, isEditable: true }));
  const wanted = Object.values(resource.constants ?? {}).flatMap((value) =>
    typeof value === 'object' ? [value.recordType.toLowerCase()] : [],
  );
  const recordTypes = (object?.recordTypes ?? []).flatMap(({ developerName }) =>
    wanted.includes(developerName.toLowerCase()) ? [developerName] : [],
  );
  return {
    object: resource.crmObject,
    isWritten,
    seesAll: true,
    recordTypes,
    fields: [...fields, ...constants].filter(({ column }) => {
      const found = byName.get(column.toLowerCase());
      // Required fields are visible to all, and a permission set that names one is refused.
      return found ? found.permissionable : /__c$/i.test(column) && !isManaged(column);
    }),
  };
}

/** Read on Account: Salesforce refuses a permission set with read on Contact alone. */
function whatTheyNeed(permissions: readonly ObjectPermission[]): ObjectPermission[] {
  const has = (name: string) => permissions.some(({ object }) => object.toLowerCase() === name);
  if (!has('contact') || has('account')) return [];
  return [{ object: 'Account', isWritten: false, seesAll: false, fields: [], recordTypes: [] }];
}

function isEdited({ added, writable }: Field): boolean {
  return added === undefined || writable;
}

function labelOf(name: string): string {
  return name.replace(/__c$/i, '').replaceAll('_', ' ').slice(0, 40);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
