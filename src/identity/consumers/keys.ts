import { type KeySet, KeyUnusable, loadOrCreateKeySet, parseKeySet } from '../../platform/secrets/key-set.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import { consumersFolder } from './stored-consumer.ts';

export const pepperName = 'keys/pepper';
const cursorKeyName = 'keys/cursor';
export const keysFolder = 'keys';

/**
 * The key of that name, created if there is none. It is never created again while a consumer exists: a service that lost
 * its key would refuse every consumer, or every cursor, and seem healthy. Throws `KeyUnusable`, `SecretsUnavailable`.
 */
export async function loadOrCreateKey(secrets: SecretsManager, name: string): Promise<KeySet> {
  const found = await secrets.read(name);
  if (found !== undefined) return parseKeySet(name, found);
  const consumers = await secrets.list(consumersFolder);
  return consumers.length > 0
    ? readAgain(secrets, name, consumers.length)
    : loadOrCreateKeySet(secrets, name);
}

/** Another process may have created the key and the first consumer since the key was read. */
async function readAgain(secrets: SecretsManager, name: string, consumers: number): Promise<KeySet> {
  const found = await secrets.read(name);
  if (found !== undefined) return parseKeySet(name, found);
  throw new KeyUnusable(
    `The secret ${name} is missing from the secrets manager (${secrets.kind}), which still has ${consumers} consumer(s). ` +
      "The gateway doesn't create a new one, because everything made with the old one would stop working. " +
      `Restore ${name} from a backup, or delete all secrets under ${consumersFolder}/ and create the consumers again.`,
  );
}

/** The key of that name; one that existed before and is missing now is not created again. Throws as above. */
async function loadKey(secrets: SecretsManager, name: string): Promise<KeySet> {
  const found = await secrets.read(name);
  if (found !== undefined) return parseKeySet(name, found);
  throw new KeyUnusable(`The secret ${name} has vanished from the secrets manager (${secrets.kind}).`);
}

export interface KeySets {
  readonly pepper: KeySet;
  readonly cursor: KeySet;
}

export function createKeys(secrets: SecretsManager) {
  let loaded: KeySets | undefined;
  const readWith = async (read: typeof loadOrCreateKey) => {
    // In this order, and before any consumer is made: so none of them is missing once a consumer exists.
    const cursor = await read(secrets, cursorKeyName);
    const pepper = await read(secrets, pepperName);
    loaded = { pepper, cursor };
    return loaded;
  };
  return {
    /** Undefined until they were read once. */
    get loaded() {
      return loaded;
    },
    /** Reads them once. Throws `KeyUnusable`, `SecretsUnavailable`. */
    load: async (): Promise<KeySets> => loaded ?? readWith(loadOrCreateKey),
    /** Reads them again; what was read before stays valid if that fails. Throws as `load`. */
    refresh: (): Promise<KeySets> => readWith(loadKey),
  };
}

export type Keys = ReturnType<typeof createKeys>;
