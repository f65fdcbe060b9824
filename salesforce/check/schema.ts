import { basename } from 'node:path';
import { childText, listFiles, readDocuments, readProject, type XmlDocument } from './package-files.ts';

/** A field's file and the facts about it that other files depend on. */
export interface Field {
  document: XmlDocument;
  required: boolean;
}

/** The metadata of the package by what it declares. */
export interface Schema {
  /** Custom objects that the package defines. */
  objects: Set<string>;
  /** Fields by `Object.Field`. */
  fields: Map<string, Field>;
  permissionSets: XmlDocument[];
  /** External client apps by name. */
  apps: Set<string>;
  /** Files that name an external client app. */
  appParts: XmlDocument[];
  /** Layouts, list views and tabs. */
  pages: XmlDocument[];
}

/** Reads what the default package directory declares. */
export function readSchema(directory: string): Schema {
  const { sourceDir } = readProject(directory);
  const files = listFiles(directory, sourceDir).filter((file) => file.endsWith('-meta.xml'));
  const schema: Schema = {
    objects: new Set(),
    fields: new Map(),
    permissionSets: [],
    apps: new Set(),
    appParts: [],
    pages: [],
  };
  for (const document of readDocuments(directory, files)) add(schema, document);
  return schema;
}

/** The name that a metadata file has by its file name: `Quote__c` for `Quote__c.object-meta.xml`. */
export function nameOf(document: XmlDocument): string {
  return basename(document.file).replace(/\.[^.]+-meta\.xml$/, '');
}

/** The object of a field's or list view's file, which is the directory above `fields`. */
export function objectOf(document: XmlDocument): string {
  return document.file.split('/').at(-3) ?? '';
}

function add(schema: Schema, document: XmlDocument): void {
  if (document.rootName === 'CustomObject') schema.objects.add(nameOf(document));
  if (document.rootName === 'CustomField') {
    const required = childText(document.root, 'required') === 'true';
    const masterDetail = childText(document.root, 'type') === 'MasterDetail';
    const field = { document, required: required || masterDetail };
    schema.fields.set(`${objectOf(document)}.${nameOf(document)}`, field);
  }
  if (document.rootName === 'PermissionSet') schema.permissionSets.push(document);
  if (document.rootName === 'ExternalClientApplication') schema.apps.add(nameOf(document));
  if (['Layout', 'ListView', 'CustomTab'].includes(document.rootName)) schema.pages.push(document);
  if (document.rootName.startsWith('ExtlClntApp')) schema.appParts.push(document);
}
