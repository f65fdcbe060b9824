import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { listFiles, readProject } from './package-files.ts';

/** A part of the package that can be deployed: one metadata file, and for code the file beside it. */
export interface Component {
  type: string;
  /** As the manifest names it: `Quote__c.Status__c` for a field. */
  name: string;
  /** Paths relative to the project; the metadata file first. */
  files: string[];
}

/**
 * Types of the Metadata API that the package uses, by folder and suffix, from the registry of Salesforce's own tools:
 * https://github.com/forcedotcom/source-deploy-retrieve/blob/main/src/registry/metadataRegistry.json. The nightly run compares
 * what is found by it with what they find.
 */
const types: Record<string, { type: string; isCode?: true }> = {
  'classes/cls': { type: 'ApexClass', isCode: true },
  'triggers/trigger': { type: 'ApexTrigger', isCode: true },
  'layouts/layout': { type: 'Layout' },
  'permissionsets/permissionset': { type: 'PermissionSet' },
  'tabs/tab': { type: 'CustomTab' },
  'externalClientApps/eca': { type: 'ExternalClientApplication' },
  'extlClntAppOauthSettings/ecaOauth': { type: 'ExtlClntAppOauthSettings' },
  'extlClntAppGlobalOauthSets/ecaGlblOauth': { type: 'ExtlClntAppGlobalOauthSettings' },
  'extlClntAppOauthPolicies/ecaOauthPlcy': { type: 'ExtlClntAppOauthConfigurablePolicies' },
};
/** In the folder of an object. */
const partTypes: Record<string, string> = {
  'fields/field': 'CustomField',
  'listViews/listView': 'ListView',
  'recordTypes/recordType': 'RecordType',
  'validationRules/validationRule': 'ValidationRule',
};

const inFolder = /(?:^|\/)([^/]+)\/([^/]+)\.([^./]+)-meta\.xml$/;
const ofObject = /(?:^|\/)objects\/([^/]+)\/([^/]+)\/([^/]+)\.([^./]+)-meta\.xml$/;
const object = /(?:^|\/)objects\/([^/]+)\/\1\.object-meta\.xml$/;

/** The components in a package directory, the default one if none is given. */
export function readComponents(directory: string, folder?: string): Component[] {
  const files = listFiles(directory, folder ?? readProject(directory).sourceDir);
  return files.flatMap((file) => componentOf(directory, file) ?? []);
}

function componentOf(directory: string, file: string): Component | undefined {
  const [, objectName] = object.exec(file) ?? [];
  if (objectName !== undefined) return { type: 'CustomObject', name: objectName, files: [file] };
  const [, owner, part, partName, partSuffix] = ofObject.exec(file) ?? [];
  const partType = partTypes[`${part}/${partSuffix}`];
  if (partType !== undefined) return { type: partType, name: `${owner}.${partName}`, files: [file] };
  const [, parent, name = '', suffix] = inFolder.exec(file) ?? [];
  const found = types[`${parent}/${suffix}`];
  if (found === undefined) return undefined;
  const code = file.slice(0, -'-meta.xml'.length);
  const isThere = found.isCode && existsSync(join(directory, code));
  return { type: found.type, name, files: isThere ? [file, code] : [file] };
}

/** Components of code without it. */
export function withoutCode(components: readonly Component[]): Component[] {
  const codeTypes = Object.values(types).flatMap(({ type, isCode }) => (isCode ? [type] : []));
  return components.filter(({ type, files }) => codeTypes.includes(type) && files.length < 2);
}

/** The manifest that names exactly these components. */
export function packageXml(components: readonly Component[], apiVersion: string): string {
  const byType = Object.entries(Object.groupBy(components, ({ type }) => type)).toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  );
  const lines = byType.flatMap(([type, members = []]) => [
    '    <types>',
    ...members.map(({ name }) => `        <members>${name}</members>`).toSorted(),
    `        <name>${type}</name>`,
    '    </types>',
  ]);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<Package xmlns="http://soap.sforce.com/2006/04/metadata">',
    ...lines,
    `    <version>${apiVersion}</version>`,
    '</Package>\n',
  ].join('\n');
}
