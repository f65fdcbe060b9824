import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { type Secret, type SecretsManager, VersionConflict } from '../secrets/secrets-manager.ts';
import { consumersFolder } from './stored-consumer.ts';

/** Name of the secret that holds the pepper of the consumers' secrets. */
export const pepperName = 'keys/pepper';
/** Name of the secret that holds the key of the cursors that lists give out. */
const cursorKeyName = 'keys/cursor';
/** Folder of both. */
export const keysFolder = 'keys';

/** A key in several versions, of which the first is used for new work and all are good for what exists. */
export interface KeySet {
  readonly current: { version: number; key: KeyObject };
  get(version: number): KeyObject | undefined;
}

/** A key that can't be used and must not be replaced; the message says what to do and holds no key. */
export class KeyUnusable extends Error {
  override readonly name = 'KeyUnusable';
}

const keyBytes = 32;
const line = /^([1-9]\d{0,8}):([A-Za-z0-9+/]{43}=)$/;

/**
 * The key of that name, created if there is none. Of two processes that create it at once, the slower uses the key of
 * the faster. It is never created again while a consumer exists: a service that lost its key would refuse every
 * consumer, or every cursor, and seem healthy. The secret has a line `<version>:<32 bytes in base64>` for each
 * version, the current one first; a new version is added as the last line and moved to the front once every replica
 * has refreshed, or some would refuse what others have hashed with it. Throws `KeyUnusable`, `SecretsUnavailable`.
 */
export async function loadOrCreateKey(secrets: SecretsManager, name: string): Promise<KeySet> {
  const found = await secrets.read(name);
  if (found !== undefined) return parseKeySet(name, found);
  const consumers = await secrets.list(consumersFolder);
  if (consumers.length > 0) return readAgain(secrets, name, consumers.length);
  try {
    const value = `1:${randomBytes(keyBytes).toString('base64')}\n`;
    const version = await secrets.write(name, value, null);
    return parseKeySet(name, { value, version });
  } catch (error) {
    if (!(error instanceof VersionConflict)) throw error;
    return loadOrCreateKey(secrets, name);
  }
}

/** Another process may have created the key and the first consumer since the key was read. */
async function readAgain(secrets: SecretsManager, name: string, consumers: number): Promise<KeySet> {
  const found = await secrets.read(name);
  if (found !== undefined) return parseKeySet(name, found);
  throw new KeyUnusable(
    `The secret ${name} is missing from the secrets manager (${secrets.kind}), which holds ${consumers} consumer(s). ` +
      'It is not created again, since nothing that was made with the lost one would be valid any more. ' +
      `Restore ${name} from a backup, or delete all secrets below ${consumersFolder}/ and create the consumers again.`,
  );
}

/** The key of that name; one that existed before and is missing now is not created again. Throws as above. */
async function loadKey(secrets: SecretsManager, name: string): Promise<KeySet> {
  const found = await secrets.read(name);
  if (found !== undefined) return parseKeySet(name, found);
  throw new KeyUnusable(`The secret ${name} has vanished from the secrets manager (${secrets.kind}).`);
}

/** Throws `KeyUnusable`. */
function parseKeySet(name: string, secret: Secret): KeySet {
  const keys = new Map<number, KeyObject>();
  let current: KeySet['current'] | undefined;
  for (const text of secret.value.trim().split(/\s*\n\s*/)) {
    const [, version, base64] = line.exec(text) ?? [];
    if (version === undefined || base64 === undefined || keys.has(Number(version))) {
      throw new KeyUnusable(
        `The secret ${name} must have lines <version>:<${keyBytes} bytes in base64>, the current version first, ` +
          'each version once; it has another line.',
      );
    }
    const key = createSecretKey(base64, 'base64');
    keys.set(Number(version), key);
    current ??= { version: Number(version), key };
  }
  if (current === undefined) throw new KeyUnusable(`The secret ${name} is empty.`);
  return { current, get: (version) => keys.get(version) };
}

/** The keys of an installation: what its consumers' secrets are hashed with, and what protects its cursors. */
export interface KeySets {
  readonly pepper: KeySet;
  readonly cursor: KeySet;
}

/** The keys as they were last read. */
export interface Keys {
  /** Undefined until they were read once. */
  readonly loaded: KeySets | undefined;
  /** Reads them once. Throws `KeyUnusable`, `SecretsUnavailable`. */
  load(): Promise<KeySets>;
  /** Reads them again; what was read before stays valid if that fails. Throws as `load`. */
  refresh(): Promise<KeySets>;
}

export function createKeys(secrets: SecretsManager): Keys {
  let loaded: KeySets | undefined;
  const readWith = async (read: typeof loadOrCreateKey) => {
    // In this order, and before any consumer is made: so none of them is missing once a consumer exists.
    const cursor = await read(secrets, cursorKeyName);
    const pepper = await read(secrets, pepperName);
    loaded = { pepper, cursor };
    return loaded;
  };
  return {
    get loaded() {
      return loaded;
    },
    load: async () => loaded ?? readWith(loadOrCreateKey),
    refresh: () => readWith(loadKey),
  };
}
