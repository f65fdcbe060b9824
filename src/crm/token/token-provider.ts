import { type Call, remainingMs } from '../../platform/base/call.ts';
import { now as leaseClock, monotonicMs, randomFraction, sleep } from '../../platform/base/chance.ts';
import type { Lock, Locks } from '../../platform/base/lock.ts';
import { dayMs } from '../../platform/base/moment.ts';
import { Problem } from '../../platform/base/problem.ts';
import { inTime } from '../../platform/base/waiting.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import {
  type AccessToken,
  formatToken,
  parseObject,
  parseToken,
  readInstanceUrl,
  refreshMarginMs,
} from './access-token.ts';
import type { Backoff, TokenFault } from './backoff.ts';
import type { AssertionSigner } from './jwt.ts';
import { type createTokenEndpoint, type IssuedToken, TokenFailure } from './token-endpoint.ts';

/*
 * The access token of the CRM, shared by all replicas. States, as one replica sees them:
 *
 *   shared     the cache holds a token. Every call reads it there (a hit) and uses it.
 *   held       the cache holds none (a miss) or is unavailable, but this process has one that is not expired and was never
 *              refused. Calls use it; on a miss an acquisition starts beside them. A cache that is read and takes no
 *              writes counts as unavailable while this process has a token that it could not store there.
 *   acquiring  nobody has a token, or a refresh is due. One acquisition runs in this process, which all calls
 *              without a token wait for, and, through the cache's lock, over all replicas: the others look into the
 *              cache until the token is there. Without the cache each replica acquires a token of its own, one after
 *              another under a lock in the database; without that too, when it likes.
 *   backing    the last acquisition failed, or new tokens were refused. Nobody asks the CRM; calls without a token
 *   off        fail at once.
 *
 *   shared -> held        the entry ends (5 minutes before the token), or the cache is lost
 *   shared -> acquiring   the CRM refuses the token: it is deleted where it is still the cached one
 *   held -> acquiring     always on a miss; without the cache, when a refresh is due
 *   held -> shared        the cache takes the token that it did not take before
 *   acquiring -> shared   the token is stored; a holder that lost the lock meanwhile uses its token, unstored
 *   acquiring -> backing off   it failed (1 s to 5 min, doubling; 5 min where only an operator can help), or the
 *                         second token in a row was refused before the CRM ever took one
 *   backing off -> acquiring   the time is over, or the private key is another one (settings: see the connection's hash)
 */

const lockReserveMs = 5000;
/** How often a replica that waits for another's token looks for it. */
const pollMs = 100;
/** A token that the cache did not take is offered to it again, at most this often. */
const storeAgainMs = 1000;
/** The key is looked at again during a back-off, at most this often. */
const keyCheckMs = 1000;

interface TokenProviderOptions {
  environment: string;
  connectionHash: string;
  tokenLifetimeSeconds: number;
  timeoutMs: number;
  cache: SharedCache;
  spareLocks: Locks;
  signer: AssertionSigner;
  endpoint: ReturnType<typeof createTokenEndpoint>;
  backoff: Backoff;
  log: Log;
  metrics: Metrics;
  /** Milliseconds since 1970. */
  now: () => number;
}

interface TokenLock {
  /** Undefined while neither the cache nor the database gives locks. */
  lock: Lock | undefined;
  /** When another may take it, by the clock of leases: its life, counted from before it was asked for. */
  deadline: number;
}

type Lookup = { state: 'found'; token: AccessToken } | { state: 'missing' } | { state: 'unavailable' };

export class TokenProvider {
  readonly #options: TokenProviderOptions;
  readonly #key: string;
  /** The newest token that this process had. Never one that was refused. */
  #held: AccessToken | undefined;
  /** The newest token that the cache did not take. */
  #unstored: AccessToken | undefined;
  #storeTriedAt = Number.NEGATIVE_INFINITY;
  #refused: string[] = [];
  #acceptedToken: string | undefined;
  #shortMarginMs: number | undefined;
  #flight: Promise<AccessToken> | undefined;
  #read: { record: string; token: AccessToken | undefined } | undefined;
  #keyCheckedAt = Number.NEGATIVE_INFINITY;
  #isStopped = false;

  constructor(options: TokenProviderOptions) {
    this.#options = options;
    this.#key = `crm_token:${options.environment}`;
  }

  /** The token for one call. Throws `Problem` (crm_unavailable, with Retry-After) where none can be had. */
  async getToken(call: Call): Promise<AccessToken> {
    const { metrics } = this.#options;
    const lookup = await this.#look();
    if (lookup.state === 'found') {
      metrics.crmTokenCacheHits.inc();
      this.#held = lookup.token;
      return lookup.token;
    }
    metrics.crmTokenCacheMisses.inc();
    const held = this.#usableHeld();
    if (held === undefined)
      return this.#waitFor(
        this.#acquire((token) => this.#isUsable(token)),
        call,
      );
    if (lookup.state === 'missing' || this.#isDue(held)) {
      this.#acquire((token) => this.#isUsable(token)).catch(() => undefined); // Logged where it failed.
    }
    return held;
  }

  accepted(token: AccessToken): void {
    if (this.#acceptedToken === token.accessToken) return;
    this.#acceptedToken = token.accessToken;
    void this.#options.backoff.end('refused');
  }

  async invalidate(token: AccessToken): Promise<void> {
    const { cache, backoff, signer, log } = this.#options;
    const wasHeld = this.#held?.accessToken === token.accessToken;
    const wasOursAlone = wasHeld && this.#held === this.#unstored;
    if (wasHeld) this.#held = undefined;
    const others = this.#refused.filter((refused) => refused !== token.accessToken);
    this.#refused = [...others.slice(-19), token.accessToken];
    let dropped: boolean;
    try {
      const record = await cache.get(this.#key);
      const isCached = record !== undefined && this.#parse(record)?.accessToken === token.accessToken;
      dropped = isCached ? await cache.deleteIfEqual(this.#key, record) : wasOursAlone;
    } catch {
      dropped = wasHeld;
    }
    if (!dropped) return;
    log.info({}, 'Salesforce refused the access token; getting a new one');
    // A token that worked before has expired or was revoked: that is no reason to wait.
    if (this.#acceptedToken !== token.accessToken) await backoff.refused(signer.keyVersion);
  }

  /**
   * Obtains a token where less than 5 minutes are left of it, or none is cached. Throws `Problem` on a failure that may
   * pass; one that only an operator can end is no reason to repeat this.
   */
  async refreshIfDue(): Promise<void> {
    const lookup = await this.#look();
    if (lookup.state === 'found' && !this.#isDue(lookup.token)) return;
    const held = this.#usableHeld();
    if (lookup.state === 'unavailable' && held !== undefined && !this.#isDue(held)) return;
    try {
      await this.#acquire((token) => this.#isUsable(token) && !this.#isDue(token));
    } catch (error) {
      if (((await this.fault())?.advice ?? null) === null) throw error;
    }
  }

  /** The org's own address, as the token in use names it; undefined while there is none. Asks the CRM for nothing. */
  async instanceUrl(): Promise<string | undefined> {
    const lookup = await this.#look();
    const token = lookup.state === 'found' ? lookup.token : this.#usableHeld();
    return token?.instanceUrl;
  }

  /** Why the last try to get a token failed; for operators, without a secret. Never throws. */
  fault(): Promise<TokenFault | undefined> {
    return this.#options.backoff.fault();
  }

  async noticeKeyChange(): Promise<void> {
    const { backoff, signer, log } = this.#options;
    const record = await backoff.current();
    if (record === undefined) return;
    // Where the secrets manager is unavailable there is nothing new to try.
    if (!(await signer.hasOtherKeyThan(record.keyVersion).catch(() => false))) return;
    await backoff.end();
    log.info({}, 'the private key for Salesforce has changed; asking for a token again');
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#flight?.catch(() => undefined);
  }

  async #look(): Promise<Lookup> {
    try {
      const record = await this.#options.cache.get(this.#key);
      const token = record === undefined ? undefined : this.#parse(record);
      if (token !== undefined && this.#isUsable(token)) return { state: 'found', token };
      const unstored = this.#unstored;
      if (unstored === undefined || unstored !== this.#usableHeld() || this.#isDue(unstored))
        return { state: 'missing' };
      void this.#storeAgain(unstored, record);
    } catch {
      // It can't be read either.
    }
    return { state: 'unavailable' };
  }

  /** Stores it in place of the record that was seen, or of none: whatever came since is newer. Never throws. */
  async #storeAgain(token: AccessToken, seen: string | undefined): Promise<void> {
    if (monotonicMs() - this.#storeTriedAt < storeAgainMs) return;
    this.#storeTriedAt = monotonicMs();
    const { cache, connectionHash } = this.#options;
    try {
      await cache.setIfEqual(this.#key, seen, formatToken(token, connectionHash), this.#entryMs(token));
      if (this.#unstored === token) this.#unstored = undefined;
    } catch {
      // The cache still takes no writes.
    }
  }

  #parse(record: string): AccessToken | undefined {
    if (this.#read?.record !== record) {
      this.#read = { record, token: parseToken(record, this.#options.connectionHash) };
    }
    return this.#read.token;
  }

  #isUsable(token: AccessToken): boolean {
    return token.expiresAt > this.#options.now() && !this.#refused.includes(token.accessToken);
  }

  #isDue(token: AccessToken): boolean {
    return this.#entryMs(token) < 0;
  }

  /** How long the cache keeps it from now on. */
  #entryMs(token: AccessToken): number {
    return token.expiresAt - (this.#shortMarginMs ?? refreshMarginMs) - this.#options.now();
  }

  #usableHeld(): AccessToken | undefined {
    return this.#held !== undefined && this.#isUsable(this.#held) ? this.#held : undefined;
  }

  async #waitFor(flight: Promise<AccessToken>, call: Call): Promise<AccessToken> {
    const started = monotonicMs();
    const late = () => unavailable("The CRM didn't give the gateway an access token in time.", 1);
    try {
      return await inTime(flight, remainingMs(call), late);
    } finally {
      call.crmMs += monotonicMs() - started;
    }
  }

  #acquire(goodEnough: (token: AccessToken) => boolean): Promise<AccessToken> {
    this.#flight ??= this.#run(goodEnough).finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }

  async #run(goodEnough: (token: AccessToken) => boolean): Promise<AccessToken> {
    await this.#respectBackoff();
    while (!this.#isStopped) {
      const lock = await this.#takeLock();
      if (lock !== undefined) return this.#runLocked(lock, goodEnough);
      await sleep(pollMs * (0.5 + randomFraction()));
      const token = await this.#findCached(goodEnough);
      if (token !== undefined) return token;
      await this.#respectBackoff();
    }
    throw unavailable('The service is shutting down.', 1);
  }

  /** Undefined while another has it. */
  async #takeLock(): Promise<TokenLock | undefined> {
    const { cache, spareLocks, timeoutMs } = this.#options;
    const lifeMs = timeoutMs + lockReserveMs;
    for (const locks of [cache, spareLocks]) {
      const deadline = leaseClock() + lifeMs;
      try {
        const lock = await locks.acquireLock(`${this.#key}:lock`, lifeMs);
        return lock && { lock, deadline };
      } catch {
        // This store is unavailable.
      }
    }
    return { lock: undefined, deadline: leaseClock() + lifeMs };
  }

  async #runLocked(taken: TokenLock, goodEnough: (token: AccessToken) => boolean): Promise<AccessToken> {
    try {
      // Who had the lock before us may have done the work, or failed at it.
      const token = await this.#findCached(goodEnough);
      if (token !== undefined) return token;
      await this.#respectBackoff();
      return await this.#obtain(taken);
    } finally {
      await taken.lock?.release().catch(() => undefined);
    }
  }

  async #findCached(goodEnough: (token: AccessToken) => boolean): Promise<AccessToken | undefined> {
    const lookup = await this.#look();
    if (lookup.state !== 'found' || !goodEnough(lookup.token)) return undefined;
    this.#held = lookup.token;
    return lookup.token;
  }

  async #obtain(taken: TokenLock): Promise<AccessToken> {
    const { signer, endpoint, tokenLifetimeSeconds, backoff, log, metrics, now } = this.#options;
    const askedAt = now();
    try {
      const issued = await endpoint.request(await signer.sign());
      const lifetimeMs = (issued.lifetimeSeconds ?? tokenLifetimeSeconds) * 1000;
      const { accessToken, instanceUrl } = issued;
      const token = { accessToken, instanceUrl, expiresAt: askedAt + lifetimeMs };
      metrics.crmTokenAcquisitions.inc({ outcome: 'ok' });
      log.info({ lifetimeSeconds: lifetimeMs / 1000 }, 'Salesforce gave a new access token');
      // The CRM may issue the same token again after all; then it counts as new.
      this.#refused = this.#refused.filter((refused) => refused !== accessToken);
      this.#held = token;
      await this.#store(token, lifetimeMs, taken);
      await noteOrg(issued, this.#options);
      await backoff.end('failed');
      return token;
    } catch (error) {
      throw await this.#fail(error);
    }
  }

  async #store(token: AccessToken, lifetimeMs: number, { lock, deadline }: TokenLock): Promise<void> {
    const { cache, connectionHash, log } = this.#options;
    const isShort = lifetimeMs <= refreshMarginMs;
    this.#shortMarginMs = isShort ? lifetimeMs / 2 : undefined;
    if (isShort) {
      const advice =
        "Lengthen the app's session timeout in Salesforce. At 5 minutes or less, the gateway renews tokens all the time.";
      log.warn({ lifetimeSeconds: lifetimeMs / 1000, advice }, "Salesforce's access token expires very soon");
    }
    const entryMs = this.#entryMs(token);
    try {
      // Somebody else took over while we waited: that holder's token is the newer one.
      if (lock !== undefined && !(await lock.isHeld())) return;
      // A process that stood still since that answer: nothing may come between this look at the clock and the write.
      if (leaseClock() >= deadline) return;
      if (entryMs > 0) await cache.set(this.#key, formatToken(token, connectionHash), entryMs);
    } catch {
      // The cache takes no writes: this process works on with the token that it holds.
      this.#unstored = token;
    }
  }

  async #fail(error: unknown): Promise<Problem> {
    const { signer, backoff, log, metrics } = this.#options;
    const failure =
      error instanceof TokenFailure
        ? error
        : new TokenFailure('internal', 'This was unexpected. See the error.', { permanent: false });
    const waitMs = await backoff.failed(signer.keyVersion, {
      advice: failure.permanent ? failure.advice : null,
      refusal: failure.refusal ?? null,
    });
    metrics.crmTokenAcquisitions.inc({ outcome: failure.permanent ? 'permanent' : 'passing' });
    const { reason, advice, permanent, refusal } = failure;
    const facts = { reason, ...refusal, advice, permanent, retryInMs: Math.round(waitMs) };
    log.error(failure === error ? facts : { ...facts, err: error }, 'Salesforce gave no access token');
    return backingOff(waitMs);
  }

  async #respectBackoff(): Promise<void> {
    const record = await this.#options.backoff.current();
    if (record === undefined) return;
    this.#checkKeySoon();
    throw backingOff(record.until - this.#options.now());
  }

  #checkKeySoon(): void {
    const now = monotonicMs();
    if (now - this.#keyCheckedAt < keyCheckMs) return;
    this.#keyCheckedAt = now;
    void this.noticeKeyChange();
  }
}

function backingOff(waitMs: number): Problem {
  return unavailable("The CRM isn't giving the gateway an access token right now.", waitMs / 1000);
}

function unavailable(detail: string, seconds: number): Problem {
  return new Problem('crm_unavailable', detail, { retryAfter: Math.max(1, Math.ceil(seconds)) });
}

const keptMs = 90 * dayMs;

function keyOf(environment: string): string {
  return `crm_org:${environment}`;
}

export async function readKnownOrg(cache: SharedCache, environment: string) {
  const record = parseObject(await cache.get(keyOf(environment)).catch(() => undefined));
  const id = record?.['org_id'];
  return {
    id: typeof id === 'string' ? id : undefined,
    instanceUrl: readInstanceUrl(record?.['instance_url']),
  };
}

/** Notes the org of a token, and warns where it is another one than before: a refreshed sandbox is a new org. Never throws. */
export async function noteOrg(
  { orgId, instanceUrl }: IssuedToken,
  { cache, environment, log }: { cache: SharedCache; environment: string; log: Log },
): Promise<void> {
  const before = await readKnownOrg(cache, environment);
  if (orgId !== undefined && before.id !== undefined && orgId !== before.id) {
    const advice =
      'If a sandbox was refreshed, or the settings name another org on purpose, see "After a sandbox refresh" in salesforce-org.md.';
    log.warn({ orgId, formerOrgId: before.id, advice }, 'Salesforce is a different org than before');
  }
  const record = JSON.stringify({ org_id: orgId ?? before.id, instance_url: instanceUrl });
  await cache.set(keyOf(environment), record, keptMs).catch(() => undefined);
}
