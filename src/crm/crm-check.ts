import { isIP } from 'node:net';
import { type Call, startCall } from '../platform/base/call.ts';
import { wallMs } from '../platform/base/chance.ts';
import { createHttp, type Http } from '../platform/http/http.ts';
import { createLog } from '../platform/observability/log.ts';
import { createMetrics, type Metrics } from '../platform/observability/metrics.ts';
import type { SecretsManager } from '../platform/secrets/secrets-manager.ts';
import type { CrmSettings, Settings } from '../platform/settings/table.ts';
import { listOf, type Resources } from '../records/mapping.ts';
import type { Misfit, MisfitKind } from '../records/org-fit.ts';
import { laterStatuses } from '../records/quotes-and-bookings.ts';
import type { Resource } from '../records/resource.ts';
import { queryPath } from './batching/find.ts';
import { type CrmUser, fetchUser, userIdBy } from './crm-health.ts';
import { type Described, type DescribedObject, describeObjects, isManaged, listObjects } from './describe.ts';
import type { OrgFault } from './org-schema.ts';
import { ownerFaults } from './owners.ts';
import { createChangeSource } from './read-changes.ts';
import { endOf, fetchVersions } from './rest/api-versions.ts';
import type { ApiUsage } from './rest/permits.ts';
import { CrmClient } from './rest/rest-client.ts';
import { checkResource } from './schema-check.ts';
import { type AccessToken, readInstanceUrl } from './token/access-token.ts';
import { AssertionSigner, type KeyCertificate } from './token/jwt.ts';
import { createTokenEndpoint } from './token/token-endpoint.ts';
import { createColumns } from './usable-columns.ts';

export type CrmCheck = ReturnType<typeof openCrmCheck>;
export type OrgConnection = ReturnType<typeof connect>;

export interface SignInAddress {
  loginUrl: string;
  audience: string;
}

export interface OrgProblem extends OrgFault {
  advice: string;
}

interface Findings {
  faults: OrgProblem[];
  /** The service works without these. */
  lacks: OrgProblem[];
  slow: string[];
}

interface CrmCheckOptions extends CrmSettings {
  environment: string;
  secrets: SecretsManager;
  metrics: Metrics;
}

/** Objects that one call describes (REST Developer Guide, Composite: 25 subrequests). */
const describedAtOnce = 25;

/**
 * The connection to the CRM, step by step, for the person who sets it up. It signs in for itself: the token that running
 * services share, and their back-off, are neither used nor changed. Closed with `opened`.
 */
export function openCrmCheck(
  { crm, environment }: Settings,
  secrets: SecretsManager,
  opened: AsyncDisposableStack,
) {
  const options: CrmCheckOptions = {
    ...(crm as CrmSettings),
    ...{ environment, secrets, metrics: createMetrics() },
  };
  const { timeoutMs } = options;
  const http = createHttp(timeoutMs);
  opened.defer(() => http.close());
  const signer = new AssertionSigner({ ...options, now: wallMs });
  const endpointAt = (loginUrl: string) => createTokenEndpoint({ http, loginUrl, timeoutMs });
  return {
    sign: () => signer.sign(),
    get certificate(): KeyCertificate | undefined {
      return signer.certificate;
    },
    /** Trades it for an access token. Throws `TokenFailure`. */
    signIn: async (assertion: string) => {
      const { accessToken, instanceUrl } = await endpointAt(options.loginUrl).request(assertion);
      return connect(options, http, { accessToken, instanceUrl, expiresAt: Number.POSITIVE_INFINITY });
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
  };
}

function connect(options: CrmCheckOptions, http: Http, token: AccessToken) {
  const { apiVersion, metrics, timeoutMs } = options;
  const { instanceUrl } = token;
  let usage: ApiUsage | undefined;
  const newClient = () => createClient(options, http, token);
  const call = () => startCall('doctor', undefined, timeoutMs);
  const describe = async (names: readonly string[], userId?: string): Promise<Described> => {
    const client = newClient();
    const described: [string, DescribedObject | null][] = [];
    for (let start = 0; start < names.length; start += describedAtOnce)
      described.push(
        ...(await describeObjects(client, names.slice(start, start + describedAtOnce), call(), userId)),
      );
    usage = client.usage;
    return new Map(described);
  };
  return {
    apiVersion,
    instanceUrl,
    get usage(): ApiUsage | undefined {
      return usage;
    },
    /** Throws an `Error` with what is wrong. */
    checkVersion: async (): Promise<string> =>
      compareVersion(apiVersion, await fetchVersions(http, instanceUrl, timeoutMs)),
    whoAmI: () => fetchUser(newClient(), call()),
    /** The address from which the org saw the user sign in last; undefined where the user may not read the login history. */
    seenFrom: (user: CrmUser) => readSourceAddress(newClient(), user, call()),
    listObjects: () => listObjects(newClient(), call()),
    describe: (names: readonly string[]) => describe(names),
    /** Throws `CrmFailure`, `Problem`. */
    async inspect(resources: Resources): Promise<Findings> {
      const all = listOf(resources);
      const userId = await userIdBy(newClient())(call());
      const described = await describe(
        all.map(({ crmObject }) => crmObject),
        userId,
      );
      // Whether there will be reservations is not known here.
      resources.booking.fit.laterStatuses = laterStatuses;
      return findingsOf(all, described, resources.member.crmObject);
    },
    /** None where no mapping asks for owners. Throws `CrmFailure`. */
    async inspectOwners(resources: Resources): Promise<OrgProblem[]> {
      return (await ownerFaults(resources, newClient(), call())).map(ownerProblem);
    },
    readChanges: (resources: readonly Resource[]): Promise<void> =>
      readChanges(resources, { client: newClient(), metrics }, call()),
  };
}

/** A sentence without its end. */
export function factOf({ object, field, problem }: OrgFault): string {
  return `${[object, ...(field === null ? [] : [field])].join('.')} ${problem}`;
}

export function explain(problem: OrgProblem): string {
  return `${factOf(problem)}. ${problem.advice}`;
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
    for (const misfit of misfits)
      (misfit.needs.length > 0 ? found.faults : found.lacks).push(problemOf(resource, misfit));
    found.slow.push(...slow.map((column) => `${resource.crmObject}.${column} isn't an external ID`));
  }
  return found;
}

function problemOf({ crmObject }: Resource, { column, problem, kind }: Misfit): OrgProblem {
  return { object: crmObject, field: column, problem, advice: adviceFor(kind, column ?? crmObject) };
}

function adviceFor(kind: MisfitKind, name: string): string {
  return kind === 'absent' && isManaged(name)
    ? 'It belongs to a managed package: install that, give the integration user permission to see it, or name another one in the mapping.'
    : adviceByKind[kind];
}

const adviceByKind: Readonly<Record<MisfitKind, string>> = {
  absent:
    'Create it with `handoff org package`, name another one in the mapping, or give the integration user permission to see it.',
  permission: 'Assign the permission set from `handoff org package` to the integration user.',
  'read only': 'Name another field in the mapping. Under `add`, you can use `access: read`.',
  unset:
    'Map an API field to it, add it under `add` with `required: true`, set a value for all records under `set`, or make it optional in the org.',
  constant: 'Set a value for all records under `set`, or make it optional in the org.',
  length: 'Make the field longer in the org, or name another one in the mapping.',
  values: 'Add what it lacks to the picklist, or set `status: null` in the mapping.',
  key: 'Make the field unique and an external ID, or name another one in the mapping.',
  mismatch: 'Name another field in the mapping, or change the field in the org.',
};

function ownerProblem(problem: string): OrgProblem {
  return {
    object: 'User',
    field: null,
    problem: `can't provide owners: ${problem}`,
    advice: 'Until you fix this, the integration user owns new records.',
  };
}
