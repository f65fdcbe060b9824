import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
import { thumbprintOf } from '../../identity/consumers/public-keys.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import { retryOnConflict, type Secret, type SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import { WatchedSecret } from '../../platform/secrets/watched-secret.ts';

export const tokenSeconds = 600;
/** Beyond the time in which every replica reads a new key: for clocks that differ. */
const announcedMs = 10_000;
const readIntervalMs = 1000;
/** After its last token has expired, for clocks that differ. */
const keptMs = (tokenSeconds + 60) * 1000;

interface StoredKey {
  kid: string;
  /** From then on it signs in place of the one before; RFC 3339. */
  signs_from: string;
  kty: 'EC';
  crv: 'P-256';
  x: string;
  y: string;
  d: string;
}

export interface SigningKey {
  kid: string;
  /** Milliseconds since 1970. */
  signsFrom: number;
  private: KeyObject;
  public: KeyObject;
  jwk: JsonWebKey;
}

interface SigningKeysOptions {
  secrets: SecretsManager;
  environment: string;
  log: Log;
  refreshSeconds: number;
  /** Milliseconds since 1970. */
  clock: () => number;
}

function folderOf(environment: string): string {
  return `oauth/${environment}`;
}

/** Name of the secret that holds the keys of an environment: JSON, the oldest first. */
export function signingKeysName(environment: string): string {
  return `${folderOf(environment)}/keys`;
}

/** The keys that sign tokens, in memory; read again every `refreshSeconds`, on changes, and for a key that is not known. */
export class SigningKeys {
  readonly #options: SigningKeysOptions;
  readonly #secret: WatchedSecret<readonly SigningKey[]>;
  #lastRead = Number.NEGATIVE_INFINITY;
  generation = 0;

  constructor(options: SigningKeysOptions) {
    this.#options = options;
    const { secrets, environment, log, refreshSeconds } = options;
    this.#secret = new WatchedSecret({
      secrets,
      folder: folderOf(environment),
      refreshSeconds,
      read: () => this.#readOrMake(),
      parse: (text) => {
        const keys = readSigningKeys(text);
        this.generation++;
        return keys;
      },
      onFailure: (err) =>
        log.error(
          { err, secret: signingKeysName(environment) },
          "couldn't read the keys that sign tokens; the loaded ones stay in use",
        ),
    });
  }

  start(): Promise<void> {
    return this.#secret.start();
  }

  stop(): Promise<void> {
    return this.#secret.stop();
  }

  get #keys(): readonly SigningKey[] {
    return this.#secret.value ?? [];
  }

  /** The key that signs now. Throws `Problem` secrets_unavailable where none could be read. */
  signing(): SigningKey {
    return signingAt(this.#keys, this.#options.clock()) ?? unavailable();
  }

  /** All whose tokens may still be valid, and those that will sign. Throws as above. */
  valid(): SigningKey[] {
    if (this.#keys.length === 0) unavailable();
    const now = this.#options.clock();
    return this.#keys.filter((_, i) => isKept(this.#keys[i + 1]?.signsFrom, now));
  }

  /** A valid key; one that is not known is looked for, once a second at most. Throws as above. */
  async find(kid: string | undefined): Promise<SigningKey | undefined> {
    const loaded = () => this.valid().find((key) => key.kid === kid);
    const found = this.#keys.length > 0 ? loaded() : undefined;
    if (found === undefined) {
      const isDue = Math.abs(this.#options.clock() - this.#lastRead) >= readIntervalMs;
      await (isDue ? this.#secret.refresh() : this.#secret.settled());
    }
    return found ?? loaded();
  }

  /** Makes the first key. One that vanishes later is not replaced: the folder may be lost, and tokens stay valid meanwhile. */
  async #readOrMake(): Promise<Secret> {
    const { secrets, environment, clock } = this.#options;
    const name = signingKeysName(environment);
    this.#lastRead = clock();
    const found = await secrets.read(name);
    if (found !== undefined) return found;
    if (this.#keys.length > 0) throw new Error('The secrets manager no longer has it.');
    // One of the replicas that start at once makes it.
    return retryOnConflict(
      async () => (await secrets.read(name)) ?? writeKeys(secrets, name, [makeKey(clock())], null),
    );
  }
}

/**
 * Adds a key that takes over once every replica has published it, or now where it is the first, and drops those whose tokens have
 * all expired. `refreshSeconds`: within which replicas read it. Throws `SecretsUnavailable`, and an error without any key in it
 * where the secret is not readable.
 */
export function addSigningKey(
  secrets: SecretsManager,
  environment: string,
  now: number,
  refreshSeconds: number,
): Promise<{ key: StoredKey; secret: Secret }> {
  const name = signingKeysName(environment);
  return retryOnConflict(async () => {
    const found = await secrets.read(name);
    const before = found === undefined ? [] : parseKeys(found.value);
    const kept = before.filter((_, i) => isKept(before[i + 1]?.signs_from, now));
    const last = Math.max(now, ...kept.map(({ signs_from }) => Date.parse(signs_from)));
    const key = makeKey(kept.length === 0 ? now : last + refreshSeconds * 1000 + announcedMs);
    return { key, secret: await writeKeys(secrets, name, [...kept, key], found?.version ?? null) };
  });
}

async function writeKeys(
  secrets: SecretsManager,
  name: string,
  keys: readonly StoredKey[],
  before: string | null,
): Promise<Secret> {
  const value = `${JSON.stringify({ keys }, null, 2)}\n`;
  return { value, version: await secrets.write(name, value, before) };
}

/** The key that signs at that moment, milliseconds since 1970; undefined where there is none. */
export function signingAt(keys: readonly SigningKey[], now: number): SigningKey | undefined {
  return keys.findLast(({ signsFrom }) => signsFrom <= now) ?? keys[0];
}

function isKept(nextFrom: string | number | undefined, now: number): boolean {
  return nextFrom === undefined || now < new Date(nextFrom).getTime() + keptMs;
}

function makeKey(signsFrom: number): StoredKey {
  const jwk = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
  const key = jwk as Pick<StoredKey, 'kty' | 'crv' | 'x' | 'y' | 'd'>;
  return { kid: thumbprintOf(key), signs_from: new Date(signsFrom).toISOString(), ...key };
}

/** Throws an error that does not quote the secret. */
function parseKeys(value: string): StoredKey[] {
  try {
    const { keys } = JSON.parse(value) as { keys: StoredKey[] };
    if (keys.length > 0 && keys.every(({ kid, signs_from }) => kid && Date.parse(signs_from) > 0))
      return keys;
  } catch {
    // The parser quotes the text.
  }
  throw new Error(
    `It isn't JSON with a list "keys" as "handoff keys rotate" writes it. Restore it, or delete it.`,
  );
}

/** The keys in a secret, the oldest first. Throws an error without any key in it. */
export function readSigningKeys(value: string): SigningKey[] {
  return parseKeys(value).map(signingKeyOf);
}

function signingKeyOf({ kid, signs_from, ...key }: StoredKey): SigningKey {
  const own = createPrivateKey({ key, format: 'jwk' });
  if (own.asymmetricKeyDetails?.namedCurve !== 'prime256v1')
    throw new Error("It has a key that isn't on P-256.");
  const open = createPublicKey(own);
  return {
    kid,
    signsFrom: Date.parse(signs_from),
    private: own,
    public: open,
    jwk: { ...open.export({ format: 'jwk' }), kid, alg: 'ES256', use: 'sig' },
  };
}

function unavailable(): never {
  throw new Problem('secrets_unavailable', "The keys that sign tokens couldn't be read yet.", {
    retryAfter: 5,
  });
}
