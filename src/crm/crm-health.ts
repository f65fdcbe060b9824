import { type Call, startCall } from '../base/call.ts';
import type { SharedCache } from '../cache/shared-cache.ts';
import { CrmFailure } from './rest/failure.ts';
import type { ApiUsage } from './rest/quota.ts';
import type { CrmAnswer } from './rest/request.ts';
import { type CrmClient, isConnected } from './rest/rest-client.ts';
import { parseObject } from './token/access-token.ts';

/** News older than this is looked after: while connected, and while not. */
const connectedForMs = 30_000;
const disconnectedForMs = 2000;
/** The time that a probe has, token included: whoever asks for health waits for it. */
const probeMs = 3000;

/** The integration user, as the health response names it. */
export interface CrmUser {
  Id: string;
  Name: string;
}

export interface CrmState {
  connected: boolean;
  user: CrmUser | null;
  /** What to mend, where that alone gets an access token. A token from before may still work. */
  reason?: string;
  /** Use of the daily quota of calls, as the CRM last told; none before it told. */
  quota?: ApiUsage;
}

export interface CrmHealth {
  /**
   * Whether the CRM is reached and takes our token. Known from the last call; looked after only when that is old,
   * at most every 30 s (2 s while not connected) for all callers and all replicas. Never throws.
   */
  check(): Promise<CrmState>;
}

export interface CrmHealthOptions {
  environment: string;
  connectionHash: string;
  cache: SharedCache;
  client: Pick<CrmClient, 'probe' | 'dataPath' | 'usage'>;
  /** See `TokenProvider`. */
  faultToMend: () => Promise<string | undefined>;
}

/** Health of the CRM. `noteOutcome` is told how each call ended. */
export class CrmHealthMonitor implements CrmHealth {
  readonly #options: CrmHealthOptions;
  readonly #key: string;
  /** Undefined until the first news. */
  #connected: boolean | undefined;
  /** Milliseconds since 1970 of the last news, whoever brought it. */
  #newsAt = 0;
  #user: CrmUser | null = null;
  #userSoughtAt = 0;
  /** The probe that all callers share. */
  #probing: Promise<void> | undefined;
  /** What there is to mend, as asked for at a time of `performance.now()`. */
  #fault: { text: Promise<string | undefined>; at: number } | undefined;

  constructor(options: CrmHealthOptions) {
    this.#options = options;
    this.#key = `crm_health:${options.environment}`;
  }

  noteOutcome(connected: boolean): void {
    this.#connected = connected;
    this.#newsAt = Date.now();
  }

  async check(): Promise<CrmState> {
    if (!this.#isFresh()) {
      this.#probing ??= this.#lookAfter().finally(() => {
        this.#probing = undefined;
      });
      await this.#probing;
    }
    const { usage } = this.#options.client;
    const reason = await this.#faultToMend();
    const connected = this.#connected === true;
    return {
      connected,
      user: connected ? this.#user : null,
      ...(reason !== undefined && { reason }),
      ...(usage !== undefined && { quota: usage }),
    };
  }

  #faultToMend(): Promise<string | undefined> {
    const now = performance.now();
    if (this.#fault === undefined || now - this.#fault.at > disconnectedForMs)
      this.#fault = { text: this.#options.faultToMend(), at: now };
    return this.#fault.text;
  }

  #isFresh(): boolean {
    const now = Date.now();
    if (this.#connected === undefined) return false;
    // Calls have told that the CRM is there, but not who we are.
    if (this.#connected && this.#user === null && now - this.#userSoughtAt > disconnectedForMs) return false;
    return now - this.#newsAt < (this.#connected ? connectedForMs : disconnectedForMs);
  }

  async #lookAfter(): Promise<void> {
    const { cache } = this.#options;
    if (await this.#adoptShared()) return;
    // Where the cache is away each replica probes for itself.
    const lock = await cache.acquireLock(`${this.#key}:lock`, 2 * probeMs).catch(() => 'away' as const);
    // Another replica is at it; its answer is ours at the next check. Whoever knows nothing yet can't wait.
    if (lock === undefined && this.#connected !== undefined) return;
    try {
      await this.#probe();
    } finally {
      if (lock !== undefined && lock !== 'away') await lock.release().catch(() => undefined);
    }
  }

  async #adoptShared(): Promise<boolean> {
    const news = parseObject(await this.#options.cache.get(this.#key).catch(() => undefined));
    if (news?.['connection'] !== this.#options.connectionHash) return false;
    const { connected, at, user } = news;
    // What this process has seen itself since is worth more.
    if (typeof connected !== 'boolean' || typeof at !== 'number' || at <= this.#newsAt) return false;
    if (connected && !isUser(user)) return false;
    this.#connected = connected;
    this.#newsAt = at;
    if (isUser(user)) this.#user = user;
    return this.#isFresh();
  }

  async #probe(): Promise<void> {
    const { cache, client, connectionHash } = this.#options;
    this.#userSoughtAt = Date.now();
    let connected = true;
    try {
      this.#user = (await fetchUser(client, startCall('crm-health', undefined, probeMs))) ?? this.#user;
    } catch (error) {
      connected = error instanceof CrmFailure && isConnected(error);
    }
    this.noteOutcome(connected);
    const news = { connected, at: this.#newsAt, user: this.#user, connection: connectionHash };
    const ttlMs = connected ? connectedForMs : disconnectedForMs;
    await cache.set(this.#key, JSON.stringify(news), ttlMs).catch(() => undefined);
  }
}

/**
 * Who we are in the CRM: from userinfo, which is not metered; where the app may not ask it, from the identity URL
 * (REST Developer Guide, Versions and Resources). Only its path is taken: a token is never sent to another host.
 */
export async function fetchUser(
  client: CrmHealthOptions['client'],
  call: Call,
): Promise<CrmUser | undefined> {
  const userinfo = await client
    .probe(get('userinfo', '/services/oauth2/userinfo'), call)
    .catch(unlessRefused);
  const user = toUser(userinfo, 'name');
  if (user !== undefined) return user;
  const resources = await client.probe(get('identity', client.dataPath), call);
  const identity = URL.parse(String((resources.body as { identity?: unknown } | undefined)?.identity));
  if (identity === null) return undefined;
  return toUser(await client.probe(get('identity', identity.pathname), call), 'display_name');
}

function get(operation: 'userinfo' | 'identity', path: string) {
  return { operation, effect: 'read', method: 'GET', path } as const;
}

/** A refusal of this one resource is no verdict on the connection. */
function unlessRefused(error: unknown): undefined {
  if (error instanceof CrmFailure && isConnected(error)) return undefined;
  throw error;
}

function toUser(answer: CrmAnswer | undefined, nameMember: string): CrmUser | undefined {
  const body = answer?.body as Record<string, unknown> | undefined;
  const user = { Id: body?.['user_id'], Name: body?.[nameMember] };
  return isUser(user) ? user : undefined;
}

function isUser(value: unknown): value is CrmUser {
  if (typeof value !== 'object' || value === null) return false;
  const { Id, Name } = value as Record<string, unknown>;
  return typeof Id === 'string' && typeof Name === 'string';
}
