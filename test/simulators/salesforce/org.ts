import { generateKeyPairSync } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { SignJWT } from 'jose';
import {
  type SalesforceSimulator,
  type SalesforceSimulatorOptions,
  startSalesforceSimulator,
} from '../../../simulators/salesforce/simulator.ts';
import { useStarted } from '../../support/use-started.ts';

export const CLIENT_ID = 'consumer-key-of-the-app';
export const USERNAME = 'integration@example.com';
export const PACKAGE_DIR = fileURLToPath(new URL('./fixtures/package', import.meta.url));
export const DATA = '/services/data/v62.0';

export const keys = generateKeyPairSync('rsa', { modulusLength: 2048 });
export const publicPem = keys.publicKey.export({ type: 'spki', format: 'pem' }).toString();

/** JSON that a test looks into: what is there is what it asserts. */
export type Parsed = ReturnType<typeof JSON.parse>;

export interface Answer {
  status: number;
  headers: Headers;
  body: Parsed;
}

export interface TestOrg {
  simulator: SalesforceSimulator;
  url: string;
  token: string;
  /** A call with the token, its JSON answer parsed; `path` is taken from the root. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** A call below `/services/data/v62.0`. */
  data(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  control(method: string, path: string, body?: unknown): Promise<Answer>;
  /** The path of the record with this External ID, below `/services/data/v62.0`. */
  pathOf(object: string, key: string): Promise<string>;
  query(soql: string, headers?: Record<string, string>): Promise<Answer>;
  login(): Promise<string>;
  close(): Promise<void>;
}

export interface Claims {
  iss?: string;
  sub?: string;
  aud?: string;
  exp?: number;
}

export function assertion(aud: string, claims: Claims = {}, key = keys.privateKey): Promise<string> {
  const exp = Math.floor(Date.now() / 1000) + 120;
  return new SignJWT({ iss: CLIENT_ID, sub: USERNAME, aud, exp, ...claims })
    .setProtectedHeader({ alg: 'RS256' })
    .sign(key);
}

async function read(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') && text !== '';
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}

/** Sends a token request with this assertion. */
export async function requestToken(url: string, jwt: string, grant?: string): Promise<Answer> {
  const body = new URLSearchParams({
    grant_type: grant ?? 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: jwt,
  });
  return read(await fetch(`${url}/services/oauth2/token`, { method: 'POST', body }));
}

function init(method: string, body: unknown, headers: Record<string, string>): RequestInit {
  if (body === undefined) return { method, headers };
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { method, headers: { 'content-type': 'application/json', ...headers }, body: text };
}

/** Starts an org with the fixture package, logged in. */
export async function startOrg(options: Partial<SalesforceSimulatorOptions> = {}): Promise<TestOrg> {
  const simulator = await startSalesforceSimulator({
    clientId: CLIENT_ID,
    username: USERNAME,
    userName: 'Gateway Integration',
    publicKey: publicPem,
    // An org that is described has a package of its own, or none.
    ...(options.org === undefined && { packageDir: PACKAGE_DIR }),
    ...options,
  });
  const { url } = simulator;
  const org: TestOrg = {
    simulator,
    url,
    token: '',
    call: async (method, path, body, headers = {}) => {
      const given = { authorization: `Bearer ${org.token}`, ...headers };
      return read(await fetch(url + path, init(method, body, given)));
    },
    data: (method, path, body, headers) => org.call(method, `${DATA}${path}`, body, headers),
    control: async (method, path, body) =>
      read(await fetch(`${url}/simulator${path}`, init(method, body, {}))),
    pathOf: async (object, key) => {
      const { body } = await org.control('GET', `/records/${object}?External_Id__c=${key}`);
      return `/sobjects/${object}/${body[0].Id}`;
    },
    query: (soql, headers) => org.data('GET', `/query?q=${encodeURIComponent(soql)}`, undefined, headers),
    login: async () => {
      org.token = (await requestToken(url, await assertion(url))).body.access_token;
      return org.token;
    },
    close: () => simulator.close(),
  };
  await org.login();
  return org;
}

export function useOrg(options?: Partial<SalesforceSimulatorOptions>): TestOrg {
  return useStarted(
    () => startOrg(options),
    (org) => org.close(),
  );
}
