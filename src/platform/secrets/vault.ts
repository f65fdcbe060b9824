import { monotonicMs, sleep } from '../base/chance.ts';
import { SharedProbe } from '../observability/health.ts';
import type { Log } from '../observability/log.ts';
import {
  checkSecretName,
  isSecretName,
  maxSecretBytes,
  probeLifetimes,
  type Secret,
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from './secrets-manager.ts';
import {
  asObject,
  createVaultHttp,
  errorsOf,
  refusal,
  type VaultAnswer,
  type VaultCall,
  type VaultConnection,
  type VaultHttp,
} from './vault-http.ts';
import { VaultSession, type VaultSignIn } from './vault-session.ts';

export interface VaultOptions extends VaultConnection {
  mount: string;
  prefix: string;
  signIn: VaultSignIn;
}

/** How long a create waits for a deletion of the same secret that is under way. */
const deletionWaitMs = 5000;
const deletionPollMs = 100;

interface Found {
  /** Undefined where there is none, which includes one that was deleted. */
  secret: Secret | undefined;
  /** Number of the current version, which check-and-set compares; 0 where there is none. */
  number: number;
  isBeingDeleted: boolean;
}

/**
 * Secrets in HashiCorp Vault, engine KV version 2 (Vault documentation, KV secrets engine version 2, HTTP API). The
 * value of a secret is the text under the key `value`. Writes are compared and set by Vault itself (`options.cas`).
 * The API has no conditional deletion: a deletion first writes a mark with check-and-set, which readers treat
 * as no secret and writers never overwrite, and then removes the secret with its history. Version numbers start again
 * after that, so a version here also has the time at which Vault made it. `watch` reports nothing.
 */
export function createVaultSecretsManager(options: VaultOptions & { log: Log }): SecretsManager {
  return new VaultSecretsManager(options);
}

class VaultSecretsManager implements SecretsManager {
  readonly kind = 'vault';
  readonly #options: VaultOptions;
  readonly #http: VaultHttp;
  readonly #session: VaultSession;
  readonly #health: SharedProbe<void>;

  constructor(options: VaultOptions & { log: Log }) {
    this.#options = options;
    this.#http = createVaultHttp(options);
    this.#session = new VaultSession(this.#http, options.signIn, options.log);
    this.#health = new SharedProbe(() => this.#probe(), probeLifetimes);
  }

  async read(name: string): Promise<Secret | undefined> {
    checkSecretName(name);
    return (await this.#find(name)).secret;
  }

  async write(name: string, value: string, expected: string | null): Promise<string> {
    checkSecretName(name);
    if (Buffer.byteLength(value) > maxSecretBytes) throw this.#tooLarge(name);
    // A writer that saw a version which is being deleted has a conflict; one that creates waits until the name is free.
    const found = await (expected === null ? this.#findUnlessBeingDeleted(name) : this.#find(name));
    if ((found.secret?.version ?? null) !== expected) throw this.#conflict(name);
    return this.#put(name, { value }, found.number);
  }

  async delete(name: string, expected: string): Promise<void> {
    checkSecretName(name);
    const found = await this.#find(name);
    if (found.secret?.version !== expected) throw this.#conflict(name);
    // From here on no write succeeds: those based on the old version conflict, creates wait until the removal.
    await this.#put(name, { deleted: true }, found.number);
    const path = this.#path('metadata', name);
    const answer = await this.#call({ method: 'DELETE', path });
    if (answer.status !== 204) throw refusal(`remove ${path}, which is marked as deleted`, answer);
  }

  async list(folder: string): Promise<string[]> {
    checkSecretName(folder);
    return (await this.#list(folder)).sort();
  }

  /** Vault has no notifications that every edition offers, and polling costs: changes show when secrets are read. */
  watch(): () => void {
    return () => undefined;
  }

  checkHealth(): Promise<void> {
    return this.#health.check();
  }

  async close(): Promise<void> {
    this.#session.close();
    await this.#http.close();
  }

  async #find(name: string): Promise<Found> {
    const path = this.#path('data', name);
    const answer = await this.#call({ method: 'GET', path });
    const { data, metadata } = readParts(answer);
    const number = metadata['version'];
    if (answer.status === 404 && isAbsent(answer))
      return { secret: undefined, number: Number(number ?? 0), isBeingDeleted: false };
    if (answer.status !== 200 || typeof number !== 'number') throw refusal(`return ${path}`, answer);
    if (data['deleted'] === true) return { secret: undefined, number, isBeingDeleted: true };
    const secret = { value: this.#readValue(name, data['value']), version: versionOf(metadata) };
    return { secret, number, isBeingDeleted: false };
  }

  #readValue(name: string, value: unknown): string {
    if (typeof value !== 'string')
      throw new SecretsUnavailable(`${this.#path('data', name)} in Vault has no text under the key "value"`);
    if (Buffer.byteLength(value) > maxSecretBytes) throw this.#tooLarge(name);
    return value;
  }

  async #findUnlessBeingDeleted(name: string): Promise<Found> {
    const until = monotonicMs() + deletionWaitMs;
    for (;;) {
      const found = await this.#find(name);
      if (!found.isBeingDeleted) return found;
      if (monotonicMs() > until) {
        throw new SecretsUnavailable(
          `The deletion of ${this.#path('data', name)} in Vault never finished: ` +
            'run "vault kv metadata delete" on it, then try again',
        );
      }
      await sleep(deletionPollMs);
    }
  }

  async #put(name: string, data: object, cas: number): Promise<string> {
    const path = this.#path('data', name);
    const answer = await this.#call({ method: 'POST', path, body: { options: { cas }, data } });
    if (
      answer.status === 400 &&
      errorsOf(answer.body).some((text) => text.includes('check-and-set parameter did not'))
    )
      throw this.#conflict(name);
    const metadata = asObject(answer.body?.['data']) ?? {};
    if (answer.status !== 200 || typeof metadata['version'] !== 'number')
      throw refusal(`store ${path}`, answer);
    return versionOf(metadata);
  }

  async #list(folder: string): Promise<string[]> {
    const path = this.#path('metadata', folder);
    const answer = await this.#call({ method: 'GET', path, query: 'list=true' });
    if (answer.status === 404 && isAbsent(answer)) return [];
    const keys = asObject(answer.body?.['data'])?.['keys'];
    if (answer.status !== 200 || !Array.isArray(keys)) throw refusal(`list ${path}`, answer);
    const names: string[] = [];
    for (const key of keys.filter((entry) => typeof entry === 'string')) {
      const name = `${folder}/${key.replace(/\/$/, '')}`;
      // Secrets that can't be read by their name are not ours.
      if (!isSecretName(name)) continue;
      if (key.endsWith('/')) names.push(...(await this.#list(name)));
      else names.push(name);
    }
    return names;
  }

  async #probe(): Promise<void> {
    const answer = await this.#call({ method: 'GET', path: 'auth/token/lookup-self' });
    if (answer.status !== 200) throw refusal("look up the gateway's token", answer);
  }

  async #call(call: VaultCall): Promise<VaultAnswer> {
    try {
      const answer = await this.#callWithToken(call);
      if (answer.status === 403 || answer.status === 429 || answer.status >= 472) this.#health.noteFailure();
      return answer;
    } catch (error) {
      this.#health.noteFailure();
      throw error;
    }
  }

  /** Where Vault refuses a token that has run out, another is obtained once; a refused call has changed nothing. */
  async #callWithToken(call: VaultCall): Promise<VaultAnswer> {
    const token = await this.#session.token();
    const answer = await this.#http.call({ ...call, token });
    if (answer.status !== 403 || !(await this.#session.replaceRefused(token))) return answer;
    return this.#http.call({ ...call, token: await this.#session.token() });
  }

  #path(what: 'data' | 'metadata', name: string): string {
    const { mount, prefix } = this.#options;
    return `${mount}/${what}/${prefix}/${name}`;
  }

  #conflict(name: string): VersionConflict {
    return new VersionConflict(`${this.#path('data', name)} in Vault was changed by another writer`);
  }

  #tooLarge(name: string): SecretsUnavailable {
    return new SecretsUnavailable(
      `${this.#path('data', name)} in Vault: a secret can have at most ${maxSecretBytes} bytes`,
    );
  }
}

function readParts({ body }: VaultAnswer) {
  const content = asObject(body?.['data']) ?? {};
  return { data: asObject(content['data']) ?? {}, metadata: asObject(content['metadata']) ?? {} };
}

/** No secret, or a deleted one; the answer for a path that no engine serves has an error, and a proxy answers otherwise. */
function isAbsent(answer: VaultAnswer): boolean {
  const errors = answer.body?.['errors'];
  return 'version' in readParts(answer).metadata || (Array.isArray(errors) && errors.length === 0);
}

function versionOf(metadata: Readonly<Record<string, unknown>>): string {
  return `${String(metadata['version'])} of ${String(metadata['created_time'])}`;
}
