import type { Call } from '../platform/base/call.ts';
import { readTogether, unusable } from './batching/composite.ts';
import { readPage, toPart } from './batching/find.ts';
import { failureOf } from './rest/errors.ts';
import { type CrmAnswer, isSuccess } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { rightsQuery } from './soql/query.ts';

export interface DescribedField {
  name: string;
  type: string;
  length: number;
  precision: number;
  scale: number;
  digits: number;
  createable: boolean;
  updateable: boolean;
  calculated: boolean;
  autoNumber: boolean;
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
  /** Undefined in descriptions that an earlier version has stored. */
  deletable?: boolean;
  /** View All Records; undefined where the org doesn't say. */
  seesAll?: boolean;
  queryable: boolean;
  fields: readonly DescribedField[];
  recordTypes: readonly { id: string; developerName: string; available: boolean }[];
}

/** Whether an object or a field, such as `acme__Vendor__c`, is of a managed package: only its vendor can make it. */
export function isManaged(name: string): boolean {
  return /^[a-z]\w*?__\w+__[a-z]+$/i.test(name);
}

export type Described = ReadonlyMap<string, DescribedObject | null>;

/**
 * Describes objects in one metered call. In full each time: the answer to If-Modified-Since is not known to count changed
 * permissions (REST Developer Guide, sObject Describe). `userId`: whose View All Records is asked for. Throws `Problem`,
 * `CrmFailure`.
 */
export async function describeObjects(
  client: Pick<CrmClient, 'send' | 'dataPath'>,
  names: readonly string[],
  call: Call,
  userId?: string,
): Promise<Described> {
  const parts = names.map((name) => ({
    method: 'GET' as const,
    path: `${client.dataPath}/sobjects/${encodeURIComponent(name)}/describe`,
  }));
  const rights = userId === undefined ? [] : [toPart(client.dataPath, rightsQuery(names, userId))];
  const answers = await readTogether(client, [...parts, ...rights], { operation: 'describe' }, call);
  const seesAll = readSeesAll(answers[names.length], client.dataPath);
  const described = names.map((name, index) => {
    const { status, headers, body } = answers[index] as CrmAnswer;
    if (status === 404) return [name.toLowerCase(), null] as const;
    if (status !== 200) throw failureOf({ status, headers, body }, { effect: 'read' });
    const sees = seesAll(name);
    return [
      name.toLowerCase(),
      { ...readDescription(name, body), ...(sees !== undefined && { seesAll: sees }) },
    ] as const;
  });
  return new Map(described);
}

/** Whether a permission set of the user has View All Records, or View All Data, which stands there too (Object Reference, ObjectPermissions). */
function readSeesAll(
  answer: CrmAnswer | undefined,
  dataPath: string,
): (object: string) => boolean | undefined {
  // An org may hide from the user what it may do.
  const rows = answer && isSuccess(answer) ? readPage(answer, dataPath).rows : [];
  return (object) => {
    const own = rows.filter((row) => String(row['SobjectType']).toLowerCase() === object.toLowerCase());
    return own.length === 0 ? undefined : own.some((row) => row['PermissionsViewAllRecords'] === true);
  };
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
    deletable: object['deletable'] !== false,
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
    calculated: field['calculated'] === true,
    autoNumber: field['autoNumber'] === true,
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
