import { readFile } from 'node:fs/promises';
import { clearTimeout, now, setTimeout } from '../base/chance.ts';
import { dayMs } from '../base/moment.ts';
import type { Log } from '../observability/log.ts';
import { SecretsUnavailable } from './secrets-manager.ts';
import { asObject, refusal, type VaultAnswer, type VaultHttp } from './vault-http.ts';

export type VaultSignIn =
  | { method: 'token'; token: string }
  | { method: 'kubernetes'; role: string; tokenFile: string; mount: string };

interface Lease {
  token: string;
  isRenewable: boolean;
  /** When it was given, in milliseconds of `now()`: Vault's clock goes on while this machine is suspended. */
  from: number;
  /** Milliseconds; infinite for a token without an end. */
  lifetimeMs: number;
}

/** A lease may last longer than a timer can: then it is renewed early. */
const longestWaitMs = dayMs;
const shortestRetryMs = 1000;

/**
 * Holds a Vault token and keeps it alive: renewed at half its lifetime, and where that fails, or where renewing gives
 * little more since the token nears its maximum, it signs in again. A token of the settings can't be replaced; this is
 * logged before it ends. Vault documentation, Tokens, Kubernetes auth method (API).
 */
export class VaultSession {
  readonly #http: VaultHttp;
  readonly #signIn: VaultSignIn;
  readonly #log: Log;
  #lease: Lease | undefined;
  #opening: Promise<Lease> | undefined;
  #checking: Promise<boolean> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(http: VaultHttp, signIn: VaultSignIn, log: Log) {
    this.#http = http;
    this.#signIn = signIn;
    this.#log = log;
  }

  /** A token that has not run out, by its known lifetime. Throws `SecretsUnavailable`. */
  async token(): Promise<string> {
    const lease = this.#lease;
    if (lease !== undefined && remainingMs(lease) > 0) return lease.token;
    return (await this.#open()).token;
  }

  /**
   * Distinguishes an invalid token from one that lacks a permission. Where the token was invalid, it has been replaced
   * and the result is true. Throws `SecretsUnavailable` where there can't be another.
   */
  async replaceRefused(token: string): Promise<boolean> {
    if (this.#lease !== undefined && this.#lease.token !== token) return true;
    this.#checking ??= this.#replaceIfInvalid(token).finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #replaceIfInvalid(token: string): Promise<boolean> {
    const answer = await this.#http.call({ method: 'GET', path: 'auth/token/lookup-self', token });
    if (answer.status !== 403) return false;
    if (this.#lease?.token === token) this.#lease = undefined;
    await this.#open();
    return true;
  }

  #open(): Promise<Lease> {
    this.#opening ??= this.#obtain()
      .then((lease) => this.#hold(lease))
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  #obtain(): Promise<Lease> {
    const signIn = this.#signIn;
    return signIn.method === 'token' ? this.#lookUp(signIn.token) : this.#logIn(signIn);
  }

  async #lookUp(token: string): Promise<Lease> {
    const answer = await this.#http.call({ method: 'GET', path: 'auth/token/lookup-self', token });
    if (answer.status === 403)
      throw new SecretsUnavailable(
        "Vault refuses the token in VAULT_TOKEN: it has expired, was revoked, or isn't allowed to look itself up",
      );
    const data = asObject(answer.body?.['data']);
    const ttl = data?.['ttl'];
    if (answer.status !== 200 || typeof ttl !== 'number')
      throw refusal("look up the gateway's token", answer);
    const lease = makeLease(token, ttl, data?.['renewable'] === true);
    if (!lease.isRenewable && lease.lifetimeMs !== Number.POSITIVE_INFINITY) this.#warnOfEnd(lease);
    return lease;
  }

  async #logIn({ role, tokenFile, mount }: VaultSignIn & { method: 'kubernetes' }): Promise<Lease> {
    const jwt = await readTokenFile(tokenFile);
    const path = `auth/${mount}/login`;
    const answer = await this.#http.call({ method: 'POST', path, body: { role, jwt } });
    const lease = answer.status === 200 ? readLease(answer) : undefined;
    if (lease !== undefined) return lease;
    if (answer.status !== 400 && answer.status !== 403)
      throw refusal(`accept the sign-in at ${path}`, answer);
    throw new SecretsUnavailable(
      `Vault refuses the role ${role} at ${path} (status ${answer.status}): check that the role exists, that it's ` +
        "bound to this pod's service account and namespace, and that Vault can review this cluster's tokens",
    );
  }

  #hold(lease: Lease): Lease {
    this.#lease = lease;
    const endless = lease.lifetimeMs === Number.POSITIVE_INFINITY;
    if (!endless && (lease.isRenewable || this.#canSignInAgain)) this.#renewIn(lease.lifetimeMs / 2);
    return lease;
  }

  get #canSignInAgain(): boolean {
    return this.#signIn.method === 'kubernetes';
  }

  #renewIn(waitMs: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#renew(), Math.min(waitMs, longestWaitMs));
    this.#timer.unref();
  }

  async #renew(): Promise<void> {
    const lease = this.#lease;
    if (lease === undefined || this.#isClosed) return;
    try {
      const renewed = lease.isRenewable ? await this.#askForMore(lease) : undefined;
      if (renewed !== undefined) this.#hold(renewed);
      else await this.#open();
    } catch (err) {
      this.#log.warn({ err }, "couldn't renew the Vault token; will try again");
      // Past its end the next call signs in; until then tries come closer together, at most one a second.
      const remaining = remainingMs(lease);
      if (remaining > 0) this.#renewIn(Math.max(remaining / 2, shortestRetryMs));
    }
  }

  /** Undefined where signing in again is better. */
  async #askForMore(lease: Lease): Promise<Lease | undefined> {
    const { token } = lease;
    const answer = await this.#http.call({ method: 'POST', path: 'auth/token/renew-self', token, body: {} });
    const renewed = answer.status === 200 ? readLease(answer) : undefined;
    if (!this.#canSignInAgain) {
      if (renewed === undefined) throw refusal("renew the gateway's token", answer);
      // Its maximum is near: what remains can't be made longer, only the owner of the token can help.
      if (renewed.lifetimeMs <= lease.lifetimeMs / 2) this.#warnOfEnd(renewed);
      return renewed;
    }
    return renewed !== undefined && renewed.lifetimeMs > lease.lifetimeMs / 2 ? renewed : undefined;
  }

  #warnOfEnd({ lifetimeMs }: Lease): void {
    const seconds = Math.floor(lifetimeMs / 1000);
    this.#log.warn({ seconds }, "the token in VAULT_TOKEN expires soon and can't be renewed; replace it");
  }
}

function remainingMs(lease: Lease): number {
  return lease.from + lease.lifetimeMs - now();
}

/** Vault gives 0 for a token without an end, such as a root token. */
function makeLease(token: string, seconds: number, isRenewable: boolean): Lease {
  const lifetimeMs = seconds > 0 ? seconds * 1000 : Number.POSITIVE_INFINITY;
  return { token, isRenewable, from: now(), lifetimeMs };
}

function readLease(answer: VaultAnswer): Lease | undefined {
  const auth = asObject(answer.body?.['auth']);
  const token = auth?.['client_token'];
  const seconds = auth?.['lease_duration'];
  if (typeof token !== 'string' || token === '' || typeof seconds !== 'number') return undefined;
  // Expired: unlike with a look-up, 0 does not mean endless here.
  if (seconds <= 0) return undefined;
  return makeLease(token, seconds, auth?.['renewable'] === true);
}

/** Read again at each sign-in: Kubernetes replaces it long before it runs out. */
async function readTokenFile(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'it failed';
    throw new SecretsUnavailable(
      `The service account token ${path} (VAULT_K8S_TOKEN_FILE) can't be read: ${reason}`,
    );
  }
}
