import { type Call, startCall } from '../platform/base/call.ts';
import { monotonicMs, now, wallMs } from '../platform/base/chance.ts';
import type { SharedCache } from '../platform/cache/shared-cache.ts';
import type { CallBudget } from './budget/call-budget.ts';
import { CrmFailure, type DisconnectedBy, disconnectedBy, isConnected, isUnsent } from './failure.ts';
import type { OrgFault } from './org-schema.ts';
import type { ApiUsage } from './rest/permits.ts';
import type { CrmAnswer } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { parseObject } from './token/access-token.ts';
import type { TokenFault } from './token/backoff.ts';
import type { SignInRefusal } from './token/token-endpoint.ts';
import type { TokenProvider } from './token/token-provider.ts';

/** A result older than this is checked again: while connected, and while not; longer where a metered call has to show it. */
const connectedForMs = 30_000;
const disconnectedForMs = 2000;
const withoutDataForMs = 5000;
const probeMs = 3000;

export interface CrmUser {
  Id: string;
  Name: string;
}

interface CrmState {
  connected: boolean;
  user: CrmUser | null;
  reason?: DisconnectedBy;
  advice?: string;
  sign_in?: SignInRefusal;
  lacks?: readonly OrgFault[];
  /** Use of the daily quota of calls, as the CRM last reported; undefined before it did and where there is no budget. */
  quota?: Pick<ApiUsage, 'used' | 'limit'> & { budget?: number; budget_used?: number };
}

interface CrmHealthOptions {
  environment: string;
  connectionHash: string;
  cache: SharedCache;
  client: Pick<CrmClient, 'probe' | 'dataPath' | 'usage' | 'isQuotaUsedUp'>;
  tokens: Pick<TokenProvider, 'fault'>;
  dataProbe: string;
  lacks: () => readonly OrgFault[];
  budget?: CallBudget | undefined;
}

export class CrmHealth {
  readonly #options: CrmHealthOptions;
  readonly #key: string;
  /** Undefined until the first result. */
  #connected: boolean | undefined;
  #disconnected: DisconnectedBy | undefined;
  /** By `now()`, as `#userAskedAt`: a wall clock that is set back must not keep an old result fresh. */
  #checkedAt = Number.NEGATIVE_INFINITY;
  #user: CrmUser | null = null;
  #userAskedAt = Number.NEGATIVE_INFINITY;
  #probing: Promise<void> | undefined;
  /** `at` by `monotonicMs()`. */
  #fault: { found: Promise<TokenFault | undefined>; at: number } | undefined;

  constructor(options: CrmHealthOptions) {
    this.#options = options;
    this.#key = `crm_health:${options.environment}`;
  }

  /** Notes how a call ended; one that was not sent shows nothing of the CRM. */
  noteOutcome(failure?: CrmFailure): void {
    if (failure === undefined || !isUnsent(failure)) this.#note(failure && disconnectedBy(failure));
  }

  #note(disconnected: DisconnectedBy | undefined): void {
    const isNew = this.#connected !== undefined && disconnected !== this.#disconnected;
    this.#connected = disconnected === undefined;
    this.#disconnected = disconnected;
    this.#checkedAt = now();
    if (!isNew) return;
    this.#fault = undefined;
    // Replicas without requests would not know that data calls fail.
    void this.#share();
  }

  /**
   * Whether the CRM is reached and takes our token. Known from the last call; a probe is sent only when that is old, at
   * most every 30 s (2 s while not connected) for all callers and all replicas. Never throws.
   */
  async check(): Promise<CrmState> {
    if (!this.#isFresh()) {
      this.#probing ??= this.#refresh().finally(() => {
        this.#probing = undefined;
      });
      await this.#probing;
    }
    const quota = await this.#readQuota();
    const lacks = this.#options.lacks();
    const connected = this.#connected === true;
    return {
      connected,
      user: connected ? this.#user : null,
      ...this.#explain((await this.#findFault()) ?? { advice: null, refusal: null }),
      ...(lacks.length > 0 && { lacks }),
      ...(quota !== undefined && { quota }),
    };
  }

  async #readQuota(): Promise<CrmState['quota']> {
    const { client, budget } = this.#options;
    const { usage } = client;
    const quota = (await budget?.status()) ?? (usage && { used: usage.used, limit: usage.limit });
    // A refused call says so without numbers.
    return quota && client.isQuotaUsedUp ? { ...quota, used: Math.max(quota.used, quota.limit) } : quota;
  }

  #explain({ advice, refusal }: TokenFault): Pick<CrmState, 'reason' | 'advice' | 'sign_in'> {
    const reason = this.#reasonFor({ advice, refusal });
    return {
      ...(reason !== undefined && { reason }),
      ...(advice !== null && { advice }),
      ...(refusal !== null && { sign_in: refusal }),
    };
  }

  #reasonFor({ advice, refusal }: TokenFault): DisconnectedBy | undefined {
    const isRefused = advice !== null || refusal !== null;
    if (this.#disconnected !== 'sign_in') return isRefused ? 'sign_in' : this.#disconnected;
    return isRefused ? 'sign_in' : 'network';
  }

  #findFault(): Promise<TokenFault | undefined> {
    const at = monotonicMs();
    if (this.#fault === undefined || at - this.#fault.at > disconnectedForMs)
      this.#fault = { found: this.#options.tokens.fault(), at };
    return this.#fault.found;
  }

  #isFresh(): boolean {
    const time = now();
    if (this.#connected === undefined) return false;
    // Calls showed that the CRM answers, but not who we are.
    if (this.#connected && this.#user === null && time - this.#userAskedAt > disconnectedForMs) return false;
    if (this.#connected) return time - this.#checkedAt < connectedForMs;
    return time - this.#checkedAt < (this.#isWithoutData ? withoutDataForMs : disconnectedForMs);
  }

  get #isWithoutData(): boolean {
    return this.#disconnected === 'data' || this.#disconnected === 'version';
  }

  async #refresh(): Promise<void> {
    const { cache } = this.#options;
    if (await this.#adoptShared()) return;
    // While the cache is unavailable each replica probes by itself.
    const lock = await cache
      .acquireLock(`${this.#key}:lock`, 2 * probeMs)
      .catch(() => 'unavailable' as const);
    // Another replica is probing; the next check reads its result. Without any result yet, this one probes too.
    if (lock === undefined && this.#connected !== undefined) return;
    try {
      await this.#probe();
    } finally {
      if (lock !== undefined && lock !== 'unavailable') await lock.release().catch(() => undefined);
    }
  }

  async #adoptShared(): Promise<boolean> {
    const shared = parseObject(await this.#options.cache.get(this.#key).catch(() => undefined));
    if (shared?.['connection'] !== this.#options.connectionHash) return false;
    const { connected, at, user, reason } = shared;
    const age = wallMs() - Number(at);
    const checkedAt = now() - age;
    // From before the clock was set back, or this process has seen something newer itself.
    if (typeof connected !== 'boolean' || !(age >= 0) || checkedAt <= this.#checkedAt) return false;
    if (connected && !isUser(user)) return false;
    this.#connected = connected;
    this.#disconnected = connected ? undefined : readReason(reason);
    this.#checkedAt = checkedAt;
    if (isUser(user)) this.#user = user;
    return this.#isFresh();
  }

  async #probe(): Promise<void> {
    const { client, dataProbe } = this.#options;
    this.#userAskedAt = now();
    const call = startCall('crm-health', undefined, probeMs);
    let disconnected: DisconnectedBy | undefined;
    try {
      this.#user = (await fetchUser(client, call)) ?? this.#user;
      // That the user can sign in shows nothing of the data API.
      if (this.#isWithoutData) await client.probe(get('query', dataProbe), call);
    } catch (error) {
      disconnected = error instanceof CrmFailure ? disconnectedBy(error) : 'network';
    }
    this.#note(disconnected);
    await this.#share();
  }

  async #share(): Promise<void> {
    const { cache, connectionHash: connection } = this.#options;
    const [connected, reason, user] = [this.#connected, this.#disconnected, this.#user];
    const at = Math.floor(wallMs() - (now() - this.#checkedAt));
    const result = JSON.stringify({ connected, reason, at, user, connection });
    // Without a user another replica asks for it itself.
    if (connected && user === null) return;
    await cache.set(this.#key, result, connectedForMs).catch(() => undefined);
  }
}

/**
 * Who we are in the CRM: from userinfo, which is not metered; where the app may not ask it, from the identity URL
 * (REST Developer Guide, Versions and Resources). Only its path is taken: a token is never sent to another host.
 */
export async function fetchUser(
  client: Pick<CrmClient, 'probe' | 'dataPath'>,
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

/** Undefined where the org doesn't say who we are. Never rejects: most can be known without. */
export function userIdBy(client: Parameters<typeof fetchUser>[0]) {
  return async (call: Call): Promise<string | undefined> =>
    (await fetchUser(client, call).catch(() => undefined))?.Id;
}

const reasons: readonly DisconnectedBy[] = ['sign_in', 'data', 'version', 'network'];

function readReason(given: unknown): DisconnectedBy {
  return reasons.find((one) => one === given) ?? 'network';
}

function get(operation: 'userinfo' | 'identity' | 'query', path: string) {
  return { operation, effect: 'read', method: 'GET', path } as const;
}

function unlessRefused(error: unknown): undefined {
  if (error instanceof CrmFailure && isConnected(error)) return undefined;
  throw error;
}

function toUser(answer: CrmAnswer | undefined, nameField: string): CrmUser | undefined {
  const body = answer?.body as Record<string, unknown> | undefined;
  const user = { Id: body?.['user_id'], Name: body?.[nameField] };
  return isUser(user) ? user : undefined;
}

function isUser(value: unknown): value is CrmUser {
  if (typeof value !== 'object' || value === null) return false;
  const { Id, Name } = value as Record<string, unknown>;
  return typeof Id === 'string' && typeof Name === 'string';
}
