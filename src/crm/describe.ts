import type { Call } from '../platform/base/call.ts';
import { readTogether, unusable } from './batching/composite.ts';
import { failureOf } from './rest/errors.ts';
import type { CrmClient } from './rest/rest-client.ts';

export interface DescribedField {
  name: string;
  type: string;
  length: number;
  precision: number;
  scale: number;
  digits: number;
  createable: boolean;
  updateable: boolean;
  nillable: boolean;
  defaultedOnCreate: boolean;
  unique: boolean;
  externalId: boolean;
  filterable: boolean;
  restrictedPicklist: boolean;
  permissionable: boolean;
  values: readonly string[];
  referenceTo: readonly string[];
  relationshipName: string | null;
}

/** No record can be made without it, and the org does not fill it in itself (Object Reference, Required Fields). */
export function isRequired({ createable, nillable, defaultedOnCreate, type }: DescribedField): boolean {
  return createable && !nillable && !defaultedOnCreate && type !== 'boolean';
}

export interface DescribedObject {
  name: string;
  createable: boolean;
  updateable: boolean;
  queryable: boolean;
  fields: readonly DescribedField[];
  recordTypes: readonly { id: string; developerName: string; available: boolean }[];
}

export type Described = ReadonlyMap<string, DescribedObject | null>;

/**
 * Describes objects in one metered call. In full each time: the answer to If-Modified-Since is not known to count changed
 * permissions (REST Developer Guide, sObject Describe). Throws `Problem`, `CrmFailure`.
 */
export async function describeObjects(
  client: Pick<CrmClient, 'send' | 'dataPath'>,
  names: readonly string[],
  call: Call,
): Promise<Described> {
  const parts = names.map((name) => ({
    method: 'GET' as const,
    path: `${client.dataPath}/sobjects/${encodeURIComponent(name)}/describe`,
  }));
  const answers = await readTogether(client, parts, { operation: 'describe' }, call);
  const described = answers.map(({ status, headers, body }, index) => {
    const name = names[index] as string;
    if (status === 404) return [name.toLowerCase(), null] as const;
    if (status !== 200) throw failureOf({ status, headers, body }, { effect: 'read' });
    return [name.toLowerCase(), readDescription(name, body)] as const;
  });
  return new Map(described);
}

export interface ListedObject {
  name: string;
  label: string;
  custom: boolean;
  createable: boolean;
  queryable: boolean;
}

/** The objects that the integration user may see (REST Developer Guide, Describe Global). Throws `Problem`, `CrmFailure`. */
export async function listObjects(
  client: Pick<CrmClient, 'send' | 'dataPath'>,
  call: Call,
): Promise<ListedObject[]> {
  const request = {
    operation: 'describe',
    effect: 'read',
    method: 'GET',
    path: `${client.dataPath}/sobjects`,
  } as const;
  const { status, headers, body } = await client.send(request, call);
  if (status !== 200) throw failureOf({ status, headers, body }, request);
  return listOf(recordOf(body)['sobjects']).map((object) => ({
    name: text(object['name']),
    label: text(object['label']),
    custom: object['custom'] === true,
    createable: object['createable'] === true,
    queryable: object['queryable'] === true,
  }));
}

/** Takes what is needed (SOAP Developer Guide, DescribeSObjectResult). Throws `CrmFailure` for another shape. */
function readDescription(name: string, body: unknown): DescribedObject {
  const object = recordOf(body);
  if (!Array.isArray(object['fields'])) throw unusable({ effect: 'read' });
  return {
    name,
    createable: object['createable'] === true,
    updateable: object['updateable'] === true,
    queryable: object['queryable'] !== false,
    fields: object['fields'].map((field) => readField(recordOf(field))),
    recordTypes: listOf(object['recordTypeInfos']).map((info) => ({
      id: text(info['recordTypeId']),
      developerName: text(info['developerName']),
      available: info['available'] === true && info['active'] !== false,
    })),
  };
}

function readField(field: Record<string, unknown>): DescribedField {
  return {
    name: text(field['name']),
    type: text(field['type']),
    length: count(field['length']),
    precision: count(field['precision']),
    scale: count(field['scale']),
    digits: count(field['digits']),
    createable: field['createable'] === true,
    updateable: field['updateable'] === true,
    nillable: field['nillable'] !== false,
    defaultedOnCreate: field['defaultedOnCreate'] === true,
    unique: field['unique'] === true,
    externalId: field['externalId'] === true,
    filterable: field['filterable'] !== false,
    restrictedPicklist: field['restrictedPicklist'] === true,
    permissionable: field['permissionable'] === true,
    values: listOf(field['picklistValues'])
      .filter(({ active }) => active !== false)
      .map(({ value }) => text(value)),
    referenceTo: Array.isArray(field['referenceTo']) ? field['referenceTo'].map(text) : [],
    relationshipName: typeof field['relationshipName'] === 'string' ? field['relationshipName'] : null,
  };
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.map(recordOf) : [];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function count(value: unknown): number {
  return typeof value === 'number' && value >= 0 ? value : 0;
}
