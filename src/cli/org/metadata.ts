import { escapeMarkup } from '../../platform/base/text.ts';
import { version } from '../../platform/base/version.ts';

const head = '<?xml version="1.0" encoding="UTF-8"?>';
const namespace = 'http://soap.sforce.com/2006/04/metadata';

export interface FieldMetadata {
  fullName: string;
  label: string;
  type: 'Text' | 'LongTextArea' | 'Checkbox' | 'Picklist' | 'Lookup' | 'Email' | 'Phone';
  length?: number;
  unique?: boolean;
  externalId?: boolean;
  referenceTo?: string;
  relationshipName?: string;
  values?: readonly string[];
}

export interface ObjectPermission {
  object: string;
  isWritten: boolean;
  seesAll: boolean;
  fields: readonly { column: string; isEditable: boolean }[];
  recordTypes: readonly string[];
}

/** Elements in the order in which the Metadata API writes them: by name, but for the full name. */
type Content = readonly (readonly [name: string, value: string | number | boolean | Content])[];

export function customField(field: FieldMetadata): string {
  const { fullName, label, type, length, unique, externalId, referenceTo, relationshipName, values } = field;
  const isLookup = referenceTo !== undefined;
  const isLong = type === 'LongTextArea';
  const isCheckbox = type === 'Checkbox';
  return document('CustomField', [
    ['fullName', fullName],
    ...given('caseSensitive', unique || undefined),
    ...given('defaultValue', isCheckbox ? false : undefined),
    ...given('deleteConstraint', isLookup ? 'SetNull' : undefined),
    ...given('externalId', externalId),
    ['label', label],
    ...given('length', length),
    ...given('referenceTo', referenceTo),
    ...given('relationshipLabel', relationshipName),
    ...given('relationshipName', relationshipName),
    ...given('required', isLong || isCheckbox ? undefined : false),
    ['type', type],
    ...given('unique', unique),
    ...given('valueSet', values && valueSet(values)),
    ...given('visibleLines', isLong ? 3 : undefined),
  ]);
}

function given(name: string, value: Content[number][1] | undefined): Content {
  return value === undefined ? [] : [[name, value]];
}

/** Not restricted: the org may add values of its own. The first one is that of new records. */
function valueSet(values: readonly string[]): Content {
  return [
    ['restricted', false],
    [
      'valueSetDefinition',
      [
        ['sorted', false],
        ...values.map(
          (value, index) =>
            [
              'value',
              [
                ['fullName', value],
                ['default', index === 0],
                ['label', value.charAt(0).toUpperCase() + value.slice(1)],
              ],
            ] as const,
        ),
      ],
    ],
  ];
}

export function customObject({
  label,
  name,
  hasNamedRecords,
}: {
  label: string;
  name: string;
  hasNamedRecords: boolean;
}): string {
  const nameField: Content = hasNamedRecords
    ? [
        ['label', `${label} Name`],
        ['type', 'Text'],
      ]
    : [
        ['displayFormat', `${name.charAt(0).toUpperCase()}-{00000000}`],
        ['label', `${label} Number`],
        ['type', 'AutoNumber'],
      ];
  return document('CustomObject', [
    ['deploymentStatus', 'Deployed'],
    ['description', `A ${name} of Handoff Gateway.`],
    ['label', label],
    ['nameField', nameField],
    ['pluralLabel', `${label}s`],
    ['sharingModel', 'ReadWrite'],
  ]);
}

export function permissionSet(permissions: readonly ObjectPermission[], { seesUsers = false } = {}): string {
  const byObject = permissions.toSorted((a, b) => (a.object < b.object ? -1 : 1));
  const fields = byObject.flatMap(({ object, fields: own }) =>
    own.map(({ column, isEditable }) => ({ field: `${object}.${column}`, isEditable })),
  );
  return document('PermissionSet', [
    ['description', 'What Handoff Gateway needs and no more. Assign it to the integration user alone.'],
    ...fields
      .sort((a, b) => (a.field < b.field ? -1 : 1))
      .map(
        ({ field, isEditable }) =>
          [
            'fieldPermissions',
            [
              ['editable', isEditable],
              ['field', field],
              ['readable', true],
            ],
          ] as const,
      ),
    ['hasActivationRequired', false],
    ['label', 'Handoff Gateway'],
    ...byObject.map((permission) => ['objectPermissions', objectPermission(permission)] as const),
    ...byObject.flatMap(({ object, recordTypes }) =>
      recordTypes.map((name) => ['recordTypeVisibilities', recordTypeVisibility(object, name)] as const),
    ),
    ...['ApiEnabled', ...(seesUsers ? ['ViewAllUsers'] : [])].map(
      (name) =>
        [
          'userPermissions',
          [
            ['enabled', true],
            ['name', name],
          ],
        ] as const,
    ),
  ]);
}

function recordTypeVisibility(object: string, name: string): Content {
  return [
    ['recordType', `${object}.${name}`],
    ['visible', true],
  ];
}

function objectPermission({ object, isWritten, seesAll }: ObjectPermission): Content {
  return [
    ['allowCreate', isWritten],
    ['allowDelete', isWritten],
    ['allowEdit', isWritten],
    ['allowRead', true],
    // Needed to see deleted records, by which the service learns of deletions.
    ['modifyAllRecords', isWritten],
    ['object', object],
    ['viewAllRecords', seesAll],
  ];
}

export function manifest(members: Readonly<Record<string, readonly string[]>>, apiVersion: string): string {
  const types = Object.entries(members)
    .filter(([, names]) => names.length > 0)
    .map(
      ([type, names]) =>
        ['types', [...names.toSorted().map((name) => ['members', name] as const), ['name', type]]] as const,
    );
  return document('Package', [...types, ['version', apiVersion]]);
}

export function projectFile(apiVersion: string): string {
  const project = {
    packageDirectories: [{ path: 'force-app', default: true }],
    name: `handoff-gateway-${version}`,
    namespace: '',
    sourceApiVersion: apiVersion,
  };
  return `${JSON.stringify(project, null, 2)}\n`;
}

function document(root: string, content: Content): string {
  return `${head}\n<${root} xmlns="${namespace}">\n${elements(content, 1)}</${root}>\n`;
}

function elements(content: Content, depth: number): string {
  const indent = '    '.repeat(depth);
  return content
    .map(([name, value]) =>
      Array.isArray(value)
        ? `${indent}<${name}>\n${elements(value as Content, depth + 1)}${indent}</${name}>\n`
        : `${indent}<${name}>${escapeMarkup(String(value))}</${name}>\n`,
    )
    .join('');
}
