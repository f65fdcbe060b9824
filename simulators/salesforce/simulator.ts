import type { Server } from 'node:http';
import { fileURLToPath } from 'node:url';
import { createActivity } from '../shared/activity.ts';
import { closeServer, listen } from '../shared/server.ts';
import { createControl } from './control/control-api.ts';
import { createFaults } from './control/faults.ts';
import { createGate } from './control/gate.ts';
import type { Settings } from './control/settings.ts';
import { createUsage } from './control/usage.ts';
import { dataOperation } from './http/operation.ts';
import { createPipeline } from './http/pipeline.ts';
import { createHttpServer } from './http/server.ts';
import { readPublicKeys } from './oauth/assertion.ts';
import type { OAuthContext } from './oauth/endpoints.ts';
import { createSessions } from './oauth/sessions.ts';
import { createOrg, type Org } from './org/org.ts';
import { loadSchema } from './org/package-schema.ts';
import { hideFields } from './org/schema.ts';
import type { ApiContext } from './rest/api-call.ts';
import { memberId, seedMembers } from './seed.ts';
import { createCursorStore } from './soql/cursors.ts';

export interface SalesforceSimulatorOptions {
  /** 0: any free port (default). */
  port?: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Consumer key of the app, the `iss` of its assertions. */
  clientId: string;
  /** Username of the integration user, the `sub` of its assertions. */
  username: string;
  /** Display name of the integration user. */
  userName?: string;
  /** PEM of the keys or certificates uploaded to the app. */
  publicKey: string | string[];
  /** Accepted `aud`; default: the simulator's own URL and the two login hosts of Salesforce. */
  audience?: string[];
  /** A source-format package, from which objects and fields are read. */
  packageDir?: string;
  /** Where records are kept across restarts; without it they live in memory only. */
  dataFile?: string;
  /** Makes sure that this many Contacts with known external ids exist. */
  seed?: { members: number };
  /** Sliding for opaque tokens; default 7200. */
  tokenLifetimeSeconds?: number;
  tokenFormat?: 'opaque' | 'jwt';
  /** API calls a day; default 100000. */
  dailyLimit?: number;
  /** Rows in a page of a query; default 2000, which is also the most. */
  maxPageSize?: number;
  /** Refuse assertions valid for more than five minutes, which an org may or may not do. */
  strict?: boolean;
}

export interface SalesforceSimulator {
  url: string;
  port: number;
  /** External ids of the first `count` seeded members. */
  memberIds(count: number): string[];
  close(): Promise<void>;
}

const DEFAULT_PACKAGE = fileURLToPath(new URL('../../salesforce', import.meta.url));
const LOGIN_HOSTS = ['https://login.salesforce.com', 'https://test.salesforce.com'];
const MAX_PAGE_SIZE = 2000;

function initialSettings(options: SalesforceSimulatorOptions): Settings {
  return {
    latencyMs: 0,
    maxConcurrent: null,
    dailyLimit: options.dailyLimit ?? 100_000,
    tokenLifetimeSeconds: options.tokenLifetimeSeconds ?? 7200,
    maxPageSize: Math.min(options.maxPageSize ?? MAX_PAGE_SIZE, MAX_PAGE_SIZE),
    missingFields: [],
    language: 'en',
  };
}

function openOrg(options: SalesforceSimulatorOptions): Org {
  const org = createOrg({
    schema: loadSchema(options.packageDir ?? DEFAULT_PACKAGE),
    username: options.username,
    userName: options.userName ?? 'Integration User',
    dataFile: options.dataFile,
  });
  seedMembers(org, options.seed?.members ?? 0);
  return org;
}

/** The parts of one running org that hold something. */
function createParts(options: SalesforceSimulatorOptions, baseUrl: () => string) {
  // Before the data file is opened: a key that can't be read must not leave it open.
  const keys = readPublicKeys([options.publicKey].flat());
  const org = openOrg(options);
  const settings = initialSettings(options);
  const activity = createActivity();
  const faults = createFaults();
  org.guard = faults.guard;
  org.onCommit = activity.addRows;
  const sessions = createSessions({
    orgId: org.id,
    userId: org.user.id,
    format: options.tokenFormat ?? 'opaque',
    lifetimeSeconds: () => settings.tokenLifetimeSeconds,
    issuer: baseUrl,
    clientId: options.clientId,
  });
  const gate = createGate(() => settings.maxConcurrent ?? Number.POSITIVE_INFINITY);
  return {
    keys,
    org,
    settings,
    activity,
    faults,
    sessions,
    gate,
    cursors: createCursorStore(),
    usage: createUsage(),
  };
}

type Parts = ReturnType<typeof createParts>;

function apiContext(parts: Parts, baseUrl: () => string): ApiContext {
  const { org, cursors, settings, usage, faults } = parts;
  return {
    org,
    cursors,
    baseUrl,
    pageSize: () => settings.maxPageSize,
    usage: () => ({ used: usage.used(), limit: settings.dailyLimit }),
    refusePart: ({ method, path, query }) => {
      const { name, object } = dataOperation(method, path, query);
      return faults.strikePart({
        method,
        path: `/${path.join('/')}?${query.toString()}`,
        operation: name,
        object,
      });
    },
  };
}

function oauthContext(
  options: SalesforceSimulatorOptions,
  parts: Parts,
  baseUrl: () => string,
): OAuthContext {
  const { keys } = parts;
  const { clientId, username, audience, strict = false } = options;
  return {
    org: parts.org,
    sessions: parts.sessions,
    baseUrl,
    onTokenIssued: parts.activity.tokenIssued,
    rules: () => ({ clientId, username, keys, strict, audience: audience ?? [baseUrl(), ...LOGIN_HOSTS] }),
  };
}

function applyToOrg({ org, settings }: Parts): void {
  hideFields(org.schema, settings.missingFields);
  org.language = settings.language;
}

function reset(options: SalesforceSimulatorOptions, parts: Parts, records: boolean): void {
  parts.faults.clear();
  parts.org.automation.clear();
  Object.assign(parts.settings, initialSettings(options));
  parts.gate.update();
  applyToOrg(parts);
  parts.cursors.clear();
  if (records) {
    parts.org.clear();
    seedMembers(parts.org, options.seed?.members ?? 0);
  }
  parts.usage.reset();
  parts.activity.reset();
}

function createServerOf(
  options: SalesforceSimulatorOptions,
  parts: Parts,
  baseUrl: () => string,
  closing: AbortSignal,
): Server {
  const charge = (calls: number): void => {
    parts.usage.add(calls);
    parts.activity.addMetered(calls);
  };
  const api = apiContext(parts, baseUrl);
  const oauth = oauthContext(options, parts, baseUrl);
  const pipeline = createPipeline({ ...parts, api, oauth, charge, closing });
  const control = createControl({
    ...parts,
    closing,
    onSettings: () => {
      parts.gate.update();
      applyToOrg(parts);
    },
    reset: (records) => reset(options, parts, records),
  });
  return createHttpServer({ pipeline, control, activity: parts.activity, gate: parts.gate });
}

/**
 * Starts a simulated Salesforce org.
 * @throws Error when a key, the package or the data file can't be read, or the port is taken.
 */
export async function startSalesforceSimulator(
  options: SalesforceSimulatorOptions,
): Promise<SalesforceSimulator> {
  let url = '';
  const closing = new AbortController();
  const parts = createParts(options, () => url);
  const { org } = parts;
  const server = createServerOf(options, parts, () => url, closing.signal);
  const { port, url: listening } = await listen(server, options.port, options.host).catch(
    (error: unknown) => {
      org.close();
      throw error;
    },
  );
  url = listening;
  const seeded = options.seed?.members ?? 0;
  return {
    url,
    port,
    memberIds: (count) =>
      Array.from({ length: Math.min(count, seeded) }, (_, position) => memberId(position)),
    close: async () => {
      closing.abort();
      await closeServer(server);
      org.close();
    },
  };
}
