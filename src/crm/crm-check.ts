import { startCall } from '../platform/base/call.ts';
import { createHttp } from '../platform/http/http.ts';
import { createLog } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import type { SecretsManager } from '../platform/secrets/secrets-manager.ts';
import type { CrmSettings } from '../platform/settings/table.ts';
import type { Field, Resource } from '../records/resource.ts';
import { type CrmUser, fetchUser } from './crm-health.ts';
import { createColumns } from './optional-columns.ts';
import { createChangeSource } from './read-changes.ts';
import { type CrmClient, createCrmClient } from './rest/rest-client.ts';
import type { AccessToken } from './token/access-token.ts';
import { createAssertionSigner } from './token/jwt.ts';
import { createTokenEndpoint } from './token/token-endpoint.ts';

/**
 * The connection to the CRM, step by step, for the person who sets it up. It signs in for itself: the token that running
 * services share, and their back-off, are neither used nor changed.
 */
export interface CrmCheck {
  /** Signs an assertion. Throws `TokenFailure`. */
  sign(): Promise<string>;
  /** Trades it for an access token. Throws `TokenFailure`. */
  signIn(assertion: string): Promise<AccessToken>;
  /** Who we are. Throws `CrmFailure`. */
  whoAmI(token: AccessToken): Promise<CrmUser | undefined>;
  /** What is wrong with the object of a resource. Throws `CrmFailure`. */
  inspect(resource: Resource, token: AccessToken): Promise<ObjectFindings>;
  /** Reads changes as the service does, and so deleted records too. Throws `Problem`. */
  readChanges(resources: readonly Resource[], token: AccessToken): Promise<void>;
  close(): Promise<void>;
}

export interface ObjectFindings {
  /** What the service cannot work with, a line a fault. */
  faults: string[];
  /** What it can do without. */
  lacks: string[];
  /** Columns that lists are filtered by and the CRM does not index. */
  slow: string[];
}

export interface CrmCheckOptions extends CrmSettings {
  environment: string;
  secrets: SecretsManager;
  metrics: Metrics;
}

export function createCrmCheck(options: CrmCheckOptions): CrmCheck {
  const { timeoutMs } = options;
  const http = createHttp(timeoutMs);
  const signer = createAssertionSigner({ ...options, now: Date.now });
  const endpoint = createTokenEndpoint({ http, loginUrl: options.loginUrl, timeoutMs });
  const clientWith = (token: AccessToken): CrmClient =>
    createCrmClient({
      ...options,
      http,
      tokens: only(token),
      // The doctor reports what it finds itself.
      log: createLog('silent'),
      onOutcome: () => undefined,
    });
  const call = () => startCall('doctor', undefined, timeoutMs);
  return {
    sign: () => signer.sign(),
    signIn: async (assertion) => {
      const { accessToken, instanceUrl } = await endpoint.request(assertion);
      return { accessToken, instanceUrl, expiresAt: Number.POSITIVE_INFINITY };
    },
    whoAmI: (token) => fetchUser(clientWith(token), call()),
    inspect: async (resource, token) => {
      const client = clientWith(token);
      const path = `${client.dataPath}/sobjects/${resource.crmObject}/describe`;
      const answer = await client.probe(
        { operation: 'describe', effect: 'read', method: 'GET', path },
        call(),
      );
      return compare(resource, answer.body);
    },
    readChanges: async (resources, token) => {
      const columnsOf = createColumns(createLog('silent')).of;
      const source = createChangeSource({ client: clientWith(token), metrics: options.metrics, columnsOf });
      const stamp = new Date().toISOString();
      await source.readChanges(new Map(resources.map((resource) => [resource, { stamp }])), call());
    },
    close: () => http.close(),
  };
}

/** A token that nobody shares and nobody replaces. */
function only(token: AccessToken) {
  return {
    getToken: async () => token,
    accepted: () => undefined,
    invalidate: async () => undefined,
  };
}

interface DescribedField {
  name: string;
  createable: boolean;
  updateable: boolean;
  unique: boolean;
  externalId?: boolean;
}

/** REST Developer Guide, sObject Describe: fields that the user can't see are left out, like those that are not there. */
function compare(resource: Resource, description: unknown): ObjectFindings {
  const { fields } = (description ?? {}) as { fields?: DescribedField[] };
  const found: ObjectFindings = { faults: [], lacks: [], slow: [] };
  if (!Array.isArray(fields)) {
    found.faults.push(`${resource.crmObject}: the CRM does not describe its fields`);
    return found;
  }
  const byName = new Map(fields.map((field) => [field.name, field]));
  for (const [name, field] of Object.entries(resource.fields)) {
    const column = columnOf(field);
    const fault = faultOf(name, field, byName.get(column));
    const list = field.optional === undefined ? found.faults : found.lacks;
    if (fault !== undefined) list.push(`${resource.crmObject}.${column} ${fault}`);
    else if (lacksIndex(field, byName.get(column)))
      found.slow.push(`${resource.crmObject}.${column} is not an external ID`);
    for (const more of field.crm.continuations ?? []) {
      const lack = faultOf(name, field, byName.get(more));
      if (lack !== undefined) found.lacks.push(`${resource.crmObject}.${more} ${lack}`);
    }
  }
  return found;
}

function faultOf(name: string, field: Field, found: DescribedField | undefined): string | undefined {
  if (found === undefined) return 'is not there, or the user may not see it';
  const isReadOnly = field.writable && !(found.createable && found.updateable);
  if (isReadOnly || (field.optional !== undefined && !found.createable))
    return 'may not be written by the user';
  if (name === 'id' && !found.unique) return 'is not unique';
  return undefined;
}

/** What a description shows of indexes: unique fields and external IDs have one. */
function lacksIndex({ indexed }: Field, found: DescribedField | undefined): boolean {
  return indexed && found?.externalId !== true && found?.unique !== true;
}

function columnOf({ crm }: Field): string {
  return crm.lookupColumn ?? crm.path;
}
