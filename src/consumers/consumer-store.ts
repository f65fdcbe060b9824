import type { Log } from '../observability/log.ts';
import { type SecretsManager, VersionConflict } from '../secrets/secrets-manager.ts';
import type { Consumer, StoredCredential } from './consumer.ts';
import { type ConsumerChange, checkChange } from './consumer-change.ts';
import { type CredentialPair, hashSecret, makeConsumerId, makeCredentialPair } from './credentials.ts';
import type { KeySet, Keys } from './keys.ts';
import { createRevocationNotes } from './revocations.ts';
import {
  BrokenConsumer,
  consumerSecretName,
  consumersFolder,
  formatConsumer,
  parseConsumer,
} from './stored-consumer.ts';

export type NewConsumer = ConsumerChange & Required<Pick<ConsumerChange, 'name' | 'permissions'>>;

/** A consumer with the pair that was made for it; the secret exists here only. */
export interface CreatedConsumer extends CredentialPair {
  consumer: Consumer;
  /** Version of the secret that holds the consumer. */
  version: string;
}

export interface VersionedConsumer {
  consumer: Consumer;
  version: string;
}

/** Consumers in the secrets manager. Every method throws `SecretsUnavailable`. */
export interface ConsumerStore {
  /** Throws `Problem` invalid_request for a bad name or permission, `KeyUnusable`. */
  create(wanted: NewConsumer): Promise<CreatedConsumer>;
  /** All consumers, oldest first; broken records are logged and left out. */
  list(): Promise<Consumer[]>;
  /** Undefined where there is none. Throws `BrokenConsumer`. */
  find(id: string): Promise<VersionedConsumer | undefined>;
  /** Writes if the secret still has that version; returns the new one. Throws `VersionConflict`. */
  save(consumer: Consumer, version: string | null): Promise<string>;
  /**
   * Deletes the consumer, even if its record is broken, and only that version of it where one is named; false where
   * there is none. Throws `VersionConflict`.
   */
  remove(id: string, version?: string): Promise<boolean>;
}

export interface ConsumerStoreOptions {
  secrets: SecretsManager;
  keys: Keys;
  log: Log;
  /** Milliseconds since 1970. */
  clock: () => number;
}

export function createConsumerStore({ secrets, keys, log, clock }: ConsumerStoreOptions): ConsumerStore {
  const noteRevocation = createRevocationNotes(secrets);
  const save = (consumer: Consumer, version: string | null) =>
    secrets.write(consumerSecretName(consumer.id), formatConsumer(consumer), version);
  const find = async (id: string) => {
    const name = consumerSecretName(id);
    const secret = await secrets.read(name);
    return secret && { consumer: parseConsumer(name, secret.value), version: secret.version };
  };
  return {
    find,
    save,
    remove: async (id, version) => {
      const name = consumerSecretName(id);
      const secret = await secrets.read(name);
      if (secret === undefined) return false;
      if (version !== undefined && version !== secret.version)
        throw new VersionConflict(`${name} was changed by another writer`);
      // First, so that every process that sees the deletion knows that it was intended.
      await noteRevocation(id);
      await secrets.delete(name, secret.version);
      return true;
    },
    create: async (wanted) => {
      const checked = checkChange(wanted) as Parameters<typeof newConsumer>[0];
      const { pepper } = await keys.load();
      const id = makeConsumerId();
      const pair = makeCredentialPair(id);
      const consumer = newConsumer({ ...checked, id }, pair, pepper, clock());
      return { consumer, ...pair, version: await save(consumer, null) };
    },
    list: async () => {
      const consumers: Consumer[] = [];
      for (const name of await secrets.list(consumersFolder)) {
        const found = await findOrSkip(name.slice(consumersFolder.length + 1), find, log);
        if (found !== undefined) consumers.push(found.consumer);
      }
      return consumers.sort((a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0));
    },
  };
}

async function findOrSkip(id: string, find: ConsumerStore['find'], log: Log) {
  try {
    return await find(id);
  } catch (error) {
    if (!(error instanceof BrokenConsumer)) throw error;
    log.error(
      { secret: consumerSecretName(id), reason: error.message },
      'a consumer record is broken and left out',
    );
    return undefined;
  }
}

/** The record of a consumer that has this pair and no other. */
export function newConsumer(
  wanted: Pick<Consumer, 'id' | 'name' | 'permissions'> & Partial<Consumer>,
  pair: CredentialPair,
  keys: KeySet,
  now: number,
): Consumer {
  const at = new Date(now).toISOString();
  return {
    certificateFingerprints: [],
    ...wanted,
    createdAt: at,
    updatedAt: at,
    rotatedAt: null,
    credentials: [activeCredential(pair, keys, at)],
  };
}

/** What is stored of a new pair. */
export function activeCredential(pair: CredentialPair, keys: KeySet, createdAt: string): StoredCredential {
  return {
    apiKey: pair.apiKey,
    hash: hashSecret(pair.apiSecret, keys.current.key).toString('base64url'),
    algorithm: 'hmac-sha256',
    pepperVersion: keys.current.version,
    state: 'active',
    createdAt,
    expiresAt: null,
  };
}
