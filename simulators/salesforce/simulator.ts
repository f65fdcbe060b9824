import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { createActivity } from './control/activity.ts';
import { handleControl } from './control/control-api.ts';
import { createFaults } from './control/faults.ts';
import { createGate } from './control/gate.ts';
import type { Settings } from './control/settings.ts';
import { createUsage } from './control/usage.ts';
import { type HttpAnswer, type HttpCall, jsonAnswer } from './http/exchange.ts';
import { createPipeline } from './http/pipeline.ts';
import { createHttpServer } from './http/server.ts';
import { readPublicKeys } from './oauth/assertion.ts';
import type { OAuthContext } from './oauth/endpoints.ts';
import { createSessions } from './oauth/sessions.ts';
import { createOrg, type Org } from './org/org.ts';
import { loadSchema } from './org/package-schema.ts';
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

function isLoopback(request: IncomingMessage): boolean {
  const address = request.socket.remoteAddress ?? '';
  return address === '::1' || /^(::ffff:)?127\./.test(address);
}

/** The control API is for this machine only, and not for pages in its browser. */
function refuseControl(request: IncomingMessage): HttpAnswer | undefined {
  if (isLoopback(request) && request.headers.origin === undefined) return undefined;
  return jsonAnswer(403, { error: 'the control API answers programs on this machine only' });
}

/** The parts of one running org and how they hang together. */
function assemble(options: SalesforceSimulatorOptions, baseUrl: () => string) {
  const keys = readPublicKeys([options.publicKey].flat());
  const org = openOrg(options);
  const settings = initialSettings(options);
  const closing = new AbortController();
  const usage = createUsage();
  const activity = createActivity();
  const faults = createFaults();
  const gate = createGate(() => settings.maxConcurrent ?? Number.POSITIVE_INFINITY);
  const cursors = createCursorStore();
  const sessions = createSessions({
    orgId: org.id,
    userId: org.user.id,
    format: options.tokenFormat ?? 'opaque',
    lifetimeSeconds: () => settings.tokenLifetimeSeconds,
    issuer: baseUrl,
    clientId: options.clientId,
  });
  org.guard = faults.guard;
  org.onCommit = activity.addRows;

  const api: ApiContext = {
    org,
    cursors,
    pageSize: () => settings.maxPageSize,
    baseUrl,
    usage: () => ({ used: usage.used(), limit: settings.dailyLimit }),
  };
  const oauth: OAuthContext = {
    org,
    sessions,
    baseUrl,
    onTokenIssued: activity.tokenIssued,
    rules: () => ({
      clientId: options.clientId,
      username: options.username,
      keys,
      audience: options.audience ?? [baseUrl(), ...LOGIN_HOSTS],
      strict: options.strict ?? false,
    }),
  };
  const charge = (calls: number): void => {
    usage.add(calls);
    activity.addMetered(calls);
  };
  const pipeline = createPipeline({
    api,
    oauth,
    sessions,
    faults,
    gate,
    settings,
    charge,
    closing: closing.signal,
  });
  const reset = (records: boolean): void => {
    faults.clear();
    Object.assign(settings, initialSettings(options));
    gate.update();
    cursors.clear();
    if (records) {
      org.clear();
      seedMembers(org, options.seed?.members ?? 0);
    }
    usage.reset();
    activity.reset();
  };
  const controlParts = { org, faults, activity, sessions, settings, onSettings: gate.update, reset };
  const control = async (
    call: HttpCall,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<HttpAnswer> =>
    refuseControl(request) ?? handleControl(controlParts, call, response, closing.signal);
  return { org, closing, server: createHttpServer({ pipeline, activity, gate, control }) };
}

function listen(
  server: ReturnType<typeof createHttpServer>,
  port: number,
  host: string,
): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve(server.address() as AddressInfo);
    });
  });
}

/** Where this machine reaches the simulator, also when it listens on all addresses. */
function urlOf(host: string, port: number): string {
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Starts a simulated Salesforce org.
 * @throws Error when a key, the package or the data file can't be read, or the port is taken.
 */
export async function startSalesforceSimulator(
  options: SalesforceSimulatorOptions,
): Promise<SalesforceSimulator> {
  let url = '';
  const { org, closing, server } = assemble(options, () => url);
  const host = options.host ?? '127.0.0.1';
  const { port } = await listen(server, options.port ?? 0, host).catch((error: unknown) => {
    org.close();
    throw error;
  });
  url = urlOf(host, port);
  const seeded = options.seed?.members ?? 0;
  return {
    url,
    port,
    memberIds: (count) =>
      Array.from({ length: Math.min(count, seeded) }, (_, position) => memberId(position)),
    close: async () => {
      closing.abort();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
      org.close();
    },
  };
}
