import { isIP } from 'node:net';
import { type Call, startCall } from '../platform/base/call.ts';
import { wallMs } from '../platform/base/chance.ts';
import { createHttp, type Http } from '../platform/http/http.ts';
import { createLog } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import type { SecretsManager } from '../platform/secrets/secrets-manager.ts';
import type { CrmSettings } from '../platform/settings/table.ts';
import { listOf, type Resources } from '../records/mapping.ts';
import type { Resource } from '../records/resource.ts';
import { queryPath } from './batching/find.ts';
import { type CrmUser, fetchUser } from './crm-health.ts';
import { type Described, describeObjects, listObjects } from './describe.ts';
import { objectsNotSeen, ownerFaults } from './owners.ts';
import { createChangeSource } from './read-changes.ts';
import { endOf, fetchVersions } from './rest/api-versions.ts';
import type { ApiUsage } from './rest/permits.ts';
import { CrmClient } from './rest/rest-client.ts';
import { checkResource } from './schema-check.ts';
import { type AccessToken, readInstanceUrl } from './token/access-token.ts';
import { AssertionSigner, type KeyCertificate } from './token/jwt.ts';
import { createTokenEndpoint } from './token/token-endpoint.ts';
import { createColumns } from './usable-columns.ts';

export type CrmCheck = ReturnType<typeof createCrmCheck>;

export interface SignInAddress {
  loginUrl: string;
  audience: string;
}

interface Findings {
  faults: string[];
  lacks: string[];
  slow: string[];
}

interface CrmCheckOptions extends CrmSettings {
  environment: string;
  secrets: SecretsManager;
  metrics: Metrics;
}

/**
 * The connection to the CRM, step by step, for the person who sets it up. It signs in for itself: the token that running
 * services share, and their back-off, are neither used nor changed.
 */
export function createCrmCheck(options: CrmCheckOptions) {
  const { timeoutMs } = options;
  const http = createHttp(timeoutMs);
  const signer = new AssertionSigner({ ...options, now: wallMs });
  const endpointAt = (loginUrl: string) => createTokenEndpoint({ http, loginUrl, timeoutMs });
  let usage: ApiUsage | undefined;
  const clientWith = (token: AccessToken) => createClient(options, http, token);
  const call = () => startCall('doctor', undefined, timeoutMs);
  return {
    sign: () => signer.sign(),
    get certificate(): KeyCertificate | undefined {
      return signer.certificate;
    },
    /** Trades it for an access token. Throws `TokenFailure`. */
    signIn: async (assertion: string): Promise<AccessToken> => {
      const { accessToken, instanceUrl } = await endpointAt(options.loginUrl).request(assertion);
      return { accessToken, instanceUrl, expiresAt: Number.POSITIVE_INFINITY };
    },
    /**
     * Tries other hosts and audiences than those of the settings, the org's own address before all, where it is known. Undefined
     * where none signs in.
     */
    async findSignIn(ownAddress: string | undefined): Promise<SignInAddress | undefined> {
      for (const address of otherAddresses(options, ownAddress)) {
        const trial = endpointAt(address.loginUrl).request(await signer.sign(address.audience));
        const isAccepted = await trial.then(Boolean, () => false);
        if (isAccepted) return address;
      }
      return undefined;
    },
    /** Throws an `Error` with what is wrong. */
    async checkVersion({ instanceUrl }: AccessToken): Promise<string> {
      return compareVersion(options.apiVersion, await fetchVersions(http, instanceUrl, timeoutMs));
    },
    get usage(): ApiUsage | undefined {
      return usage;
    },
    whoAmI: (token: AccessToken) => fetchUser(clientWith(token), call()),
    /** The address from which the org saw the user sign in last; undefined where the user may not read the login history. */
    seenFrom: (user: CrmUser, token: AccessToken) => readSourceAddress(clientWith(token), user, call()),
    listObjects: (token: AccessToken) => listObjects(clientWith(token), call()),
    describe: (names: readonly string[], token: AccessToken) =>
      describeObjects(clientWith(token), names, call()),
    /** Throws `CrmFailure`, `Problem`. */
    inspect: async (resources: Resources, token: AccessToken) => {
      const client = clientWith(token);
      const all = listOf(resources);
      const names = all.map(({ crmObject }) => crmObject);
      const described = await describeObjects(client, names, call());
      usage = client.usage;
      return findingsOf(all, described, resources.member.crmObject);
    },
    /** Objects whose records get owners and of which the user may not see all records, as far as it may know. Throws `CrmFailure`. */
    objectsNotSeen: (resources: Resources, token: AccessToken) =>
      objectsNotSeen(resources, clientWith(token), call()),
    /** Why owners of records cannot be looked up, a line each; none where no mapping asks for them. Throws `CrmFailure`. */
    checkOwners: (resources: Resources, token: AccessToken) =>
      ownerFaults(resources, clientWith(token), call()),
    readChanges: async (resources: readonly Resource[], token: AccessToken): Promise<void> => {
      await readChanges(resources, { client: clientWith(token), metrics: options.metrics }, call());
    },
    close: () => http.close(),
  };
}

function createClient(options: CrmCheckOptions, http: Http, token: AccessToken): CrmClient {
  return new CrmClient({
    ...options,
    http,
    tokens: only(token),
    // The doctor reports what it finds itself.
    log: createLog('silent'),
    onOutcome: () => undefined,
    onMetered: () => undefined,
  });
}

const loginHosts = ['https://login.salesforce.com', 'https://test.salesforce.com'];

/** Whether users of every org sign in there: external client apps may be unknown to it since spring 2026. */
export function isLoginHost(url: string): boolean {
  return /^(login|test)\./.test(URL.parse(url)?.hostname ?? '');
}

/** Five pairs at most: logins are limited. */
function otherAddresses(
  { loginUrl, audience }: SignInAddress,
  ownAddress: string | undefined,
): SignInAddress[] {
  const own = [ownAddress, readInstanceUrl(audience)].find((url) => url !== undefined && !isLoginHost(url));
  const hosts = [...new Set([...(own === undefined ? [] : [own]), loginUrl])];
  return hosts
    .flatMap((host) => [host, ...loginHosts].map((to) => ({ loginUrl: host, audience: to })))
    .filter((pair) => pair.loginUrl !== loginUrl || pair.audience !== audience);
}

async function readSourceAddress(
  client: CrmClient,
  { Id }: CrmUser,
  call: Call,
): Promise<string | undefined> {
  if (!/^\w{15,18}$/.test(Id)) return undefined;
  const soql = `SELECT SourceIp FROM LoginHistory WHERE UserId = '${Id}' ORDER BY LoginTime DESC LIMIT 1`;
  const path = queryPath(client.dataPath, soql);
  try {
    const { body } = await client.probe({ operation: 'query', effect: 'read', method: 'GET', path }, call);
    const [row] = (body as { records?: { SourceIp?: unknown }[] } | undefined)?.records ?? [];
    return typeof row?.SourceIp === 'string' && isIP(row.SourceIp) > 0 ? row.SourceIp : undefined;
  } catch {
    return undefined;
  }
}

function only(token: AccessToken) {
  return {
    getToken: async () => token,
    accepted: () => undefined,
    invalidate: async () => undefined,
  };
}

async function readChanges(
  resources: readonly Resource[],
  options: { client: CrmClient; metrics: Metrics },
  call: Call,
): Promise<void> {
  const source = createChangeSource({ ...options, columnsOf: createColumns() });
  const stamp = new Date(wallMs()).toISOString();
  await source.readChanges(new Map(resources.map((resource) => [resource, { stamp }])), call);
}

function compareVersion(wanted: string, offered: readonly string[] | undefined): string {
  if (offered === undefined) throw new Error("Salesforce doesn't say which API versions it offers.");
  const range = `the org offers ${offered[0]} to ${offered.at(-1)}`;
  if (!offered.includes(wanted))
    throw new Error(`crm.apiVersion is ${wanted}, but ${range}. Set one of these.`);
  const end = endOf(wanted);
  if (end === undefined) return `${wanted}, with no announced end; ${range}`;
  return `${wanted}, ${end}; raise crm.apiVersion, ${range}`;
}

function findingsOf(resources: readonly Resource[], described: Described, memberObject: string): Findings {
  const found: Findings = { faults: [], lacks: [], slow: [] };
  for (const resource of resources) {
    const { misfits, slow } = checkResource(resource, described, memberObject);
    for (const { column, problem, needs } of misfits) {
      const line = `${[resource.crmObject, ...(column === null ? [] : [column])].join('.')} ${problem}`;
      (needs.length > 0 ? found.faults : found.lacks).push(line);
    }
    found.slow.push(...slow.map((column) => `${resource.crmObject}.${column} isn't an external ID`));
  }
  return found;
}
