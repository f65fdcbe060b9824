import { createSecretKey, type KeyObject } from 'node:crypto';
import { randomBytes } from '../base/chance.ts';
import { retryOnConflict, type Secret, type SecretsManager } from './secrets-manager.ts';

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
 * The key of that name, created if there is none. The secret has a line `<version>:<32 bytes in base64>` for each
 * version, the current one first; a new version is added as the last line and moved to the front once every replica has
 * it, or some would refuse what others have made with it. Throws `KeyUnusable`, `SecretsUnavailable`.
 */
export function loadOrCreateKeySet(secrets: SecretsManager, name: string): Promise<KeySet> {
  // Two processes may create it at once: the slower uses the key of the faster.
  return retryOnConflict(async () => {
    const found = await secrets.read(name);
    if (found !== undefined) return parseKeySet(name, found);
    const value = `1:${randomBytes(keyBytes).toString('base64')}\n`;
    return parseKeySet(name, { value, version: await secrets.write(name, value, null) });
  });
}

/** Throws `KeyUnusable`. */
export function parseKeySet(name: string, secret: Secret): KeySet {
  const keys = new Map<number, KeyObject>();
  let current: KeySet['current'] | undefined;
  for (const text of secret.value.trim().split(/\s*\n\s*/)) {
    const [, version, base64] = line.exec(text) ?? [];
    if (version === undefined || base64 === undefined || keys.has(Number(version))) {
      throw new KeyUnusable(
        `Each line of the secret ${name} must be <version>:<${keyBytes} bytes in base64>, the current version first and ` +
          'each version once.',
      );
    }
    const key = createSecretKey(base64, 'base64');
    keys.set(Number(version), key);
    current ??= { version: Number(version), key };
  }
  if (current === undefined) throw new KeyUnusable(`The secret ${name} is empty.`);
  return { current, get: (version) => keys.get(version) };
}
