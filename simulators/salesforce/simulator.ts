import { existsSync } from 'node:fs';
import type { Server } from 'node:http';
import { createActivity } from '../shared/activity.ts';
import { closeServer, listen } from '../shared/server.ts';
import { createControl } from './control/control-api.ts';
import { createFaults } from './control/faults.ts';
import { createGate } from './control/gate.ts';
import type { Settings } from './control/settings.ts';
import { createUsage } from './control/usage.ts';
import { dataOperation } from './http/operation.ts';
import { createPipeline, type Pipeline } from './http/pipeline.ts';
import { createHttpServer } from './http/server.ts';
import { readPublicKeys } from './oauth/assertion.ts';
import type { OAuthContext } from './oauth/endpoints.ts';
import { createSessions } from './oauth/sessions.ts';
import type { Built } from './org/build-org.ts';
import type { OrgDescription } from './org/description.ts';
import { mergePatch } from './org/merge-patch.ts';
import { createOrg, type Org } from './org/org.ts';
import { checkDescription, descriptionFile, readDescription } from './org/read-description.ts';
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
  /** Accepted `aud`; default: the simulator's own URL, and the two login hosts where the description accepts them. */
  audience?: string[];
  /** The org's description: the name of one of `orgs/`, or a file. Default `default`. */
  org?: string;
  /** A source-format package that is deployed in place of that of the description. */
  packageDir?: string;
  /** Where records are kept across restarts; without it they live in memory only. */
  dataFile?: string;
  /** Makes sure that this many members with known external ids exist. */
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
  /** The mapping of Handoff Gateway beside the description (`travel.mapping.yaml`), if there is one. */
  mappingFile: string | undefined;
  /** Whether a call with this text in its body has yet to take effect, even if its caller has given it up. */
  isDelaying(text: string): boolean;
  close(): Promise<void>;
}

const LOGIN_HOSTS = ['https://login.salesforce.com', 'https://test.salesforce.com'];
const MAX_PAGE_SIZE = 2000;

function initialSettings(options: SalesforceSimulatorOptions, { language = 'en' }: OrgDescription): Settings {
  return {
    latencyMs: 0,
    maxConcurrent: null,
    dailyLimit: options.dailyLimit ?? 100_000,
    tokenLifetimeSeconds: options.tokenLifetimeSeconds ?? 7200,
    maxPageSize: Math.min(options.maxPageSize ?? MAX_PAGE_SIZE, MAX_PAGE_SIZE),
    missingFields: [],
    language,
  };
}

function openOrg(options: SalesforceSimulatorOptions, built: Built): Org {
  const org = createOrg({
    built,
    username: options.username,
    userName: options.userName ?? 'Integration User',
    dataFile: options.dataFile,
  });
  seedMembers(org, options.seed?.members ?? 0);
  return org;
}

function descriptionOf({ org = 'default' }: SalesforceSimulatorOptions): string {
  return descriptionFile(org);
}

/** The parts of one running org that hold something. */
function createParts(options: SalesforceSimulatorOptions, baseUrl: () => string) {
  // Before the data file is opened: a key that can't be read must not leave it open.
  const keys = readPublicKeys([options.publicKey].flat());
  const built = readDescription(descriptionOf(options), options.packageDir);
  const org = openOrg(options, built);
  const settings = initialSettings(options, built.description);
  org.language = settings.language;
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
    built,
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
    rules: () => {
      const ownAddressOnly = parts.org.description.loginHosts !== 'accepted';
      const usual = [baseUrl(), ...(ownAddressOnly ? [] : LOGIN_HOSTS)];
      return { clientId, username, keys, strict, audience: audience ?? usual, ownAddressOnly };
    },
  };
}

function applyToOrg({ org, settings }: Parts): void {
  org.hide(settings.missingFields);
  org.language = settings.language;
}

/** Makes the org another one while it runs; open queries end. @throws DescriptionError for what is no description. */
function become(parts: Parts, built: Built): void {
  const { org, settings, cursors } = parts;
  settings.language = built.description.language ?? settings.language;
  org.become(built);
  applyToOrg(parts);
  cursors.clear();
}

function reset(options: SalesforceSimulatorOptions, parts: Parts, records: boolean): void {
  parts.faults.clear();
  parts.org.become(parts.built);
  Object.assign(parts.settings, initialSettings(options, parts.built.description));
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

function createServerAndPipeline(
  options: SalesforceSimulatorOptions,
  parts: Parts,
  baseUrl: () => string,
  closing: AbortSignal,
): { server: Server; pipeline: Pipeline } {
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
    changeOrg: (patch) => become(parts, checkDescription(mergePatch(parts.org.description, patch))),
    reset: (records) => reset(options, parts, records),
  });
  const server = createHttpServer({ pipeline, control, activity: parts.activity, gate: parts.gate });
  return { server, pipeline };
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
  const { server, pipeline } = createServerAndPipeline(options, parts, () => url, closing.signal);
  const { port, url: listening } = await listen(server, options.port, options.host).catch(
    (error: unknown) => {
      org.close();
      throw error;
    },
  );
  url = listening;
  const seeded = options.seed?.members ?? 0;
  const mapping = descriptionOf(options).replace(/\.ya?ml$/, '.mapping.yaml');
  return {
    url,
    port,
    mappingFile: existsSync(mapping) ? mapping : undefined,
    memberIds: (count) =>
      Array.from({ length: Math.min(count, seeded) }, (_, position) => memberId(position)),
    isDelaying: pipeline.isDelaying,
    close: async () => {
      closing.abort();
      await closeServer(server);
      org.close();
    },
  };
}
