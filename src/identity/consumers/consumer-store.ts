import type { Mode } from '../../platform/base/call.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { KeySet } from '../../platform/secrets/key-set.ts';
import { type SecretsManager, VersionConflict } from '../../platform/secrets/secrets-manager.ts';
import type { Author } from '../audit/audit-event.ts';
import type { Consumer, StoredCredential } from './consumer.ts';
import { type ConsumerChange, checkChange } from './consumer-change.ts';
import { type CredentialPair, hashSecret, makeConsumerId, makeCredentialPair } from './credentials.ts';
import type { Keys } from './keys.ts';
import { createRevocationNotes } from './loss-guard.ts';
import type { FieldNames } from './permissions.ts';
import { commandLine, recordChange, withoutEvents } from './record-changes.ts';
import {
  BrokenConsumer,
  consumerSecretName,
  consumersFolder,
  formatConsumer,
  parseConsumer,
} from './stored-consumer.ts';

export type NewConsumer = ConsumerChange &
  Required<Pick<ConsumerChange, 'name' | 'permissions'>> & {
    mode?: Mode;
  };

export interface CreatedConsumer extends CredentialPair {
  consumer: Consumer;
  version: string;
}

export interface VersionedConsumer {
  consumer: Consumer;
  version: string;
}

/** Consumers in the secrets manager. Every method throws `SecretsUnavailable`. */
export interface ConsumerStore {
  /** Throws `Problem` invalid_request for a bad name or permission, `KeyUnusable`. */
  create(
    wanted: NewConsumer,
    author?: Author,
    place?: Pick<Consumer, 'id' | 'ancestors'>,
  ): Promise<CreatedConsumer>;
  /** All consumers, oldest first; broken records are logged and left out. */
  list(): Promise<Consumer[]>;
  /** Undefined where there is none, or where it was revoked. Throws `BrokenConsumer`. */
  find(id: string): Promise<VersionedConsumer | undefined>;
  /** Writes if the secret still has that version; returns the new one. Throws `VersionConflict`. */
  save(consumer: Consumer, version: string | null): Promise<string>;
  /**
   * Revokes the consumer, even if its record is broken, and only that version of it where one is named: what is left is a
   * record without credentials that holds its events. Undefined where there is none. Throws `VersionConflict`.
   */
  revoke(id: string, author: Author, version?: string): Promise<VersionedConsumer | undefined>;
  /**
   * These events are recorded: they are taken out of the record, and one that was revoked is deleted once none is left.
   * Never fails: where another process is faster, the next refresh tries again.
   */
  forgetEvents(id: string, eventIds: ReadonlySet<string>): Promise<void>;
  isEmpty(): Promise<boolean>;
}

interface ConsumerStoreOptions {
  secrets: SecretsManager;
  keys: Keys;
  log: Log;
  fieldNames: FieldNames;
  /** Milliseconds since 1970. */
  clock: () => number;
}

export function createConsumerStore(options: ConsumerStoreOptions): ConsumerStore {
  const { secrets, keys, log, fieldNames, clock } = options;
  const save: ConsumerStore['save'] = (consumer, version) =>
    secrets.write(consumerSecretName(consumer.id), formatConsumer(consumer), version);
  const find = async (id: string) => {
    const found = await readRecord(secrets, id);
    return found?.consumer.revokedAt === undefined ? found : undefined;
  };
  return {
    find,
    save,
    ...createRevocation({ ...options, save }),
    isEmpty: async () => {
      for (const name of await secrets.list(consumersFolder)) {
        const id = name.slice(consumersFolder.length + 1);
        if ((await find(id).catch(unlessBroken)) !== undefined) return false;
      }
      return true;
    },
    create: async (wanted, author = commandLine(), place?) => {
      const checked = checkChange(wanted, fieldNames) as Parameters<typeof newConsumer>[0];
      const { pepper } = await keys.load();
      const { id, ...others } = place ?? { id: makeConsumerId(wanted.mode) };
      const pair = makeCredentialPair(id);
      const made = newConsumer({ ...checked, ...others, id }, pair, pepper, clock());
      const consumer = recordChange(null, made, author, clock());
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

/** A revoked consumer's record stays, bare, until its events are recorded: only then the secret is deleted. */
function createRevocation({
  secrets,
  log,
  clock,
  save,
}: Pick<ConsumerStoreOptions, 'secrets' | 'log' | 'clock'> & { save: ConsumerStore['save'] }): Pick<
  ConsumerStore,
  'revoke' | 'forgetEvents'
> {
  const noteRevocation = createRevocationNotes(secrets);

  async function forget(id: string, eventIds: ReadonlySet<string>): Promise<void> {
    const found = await readRecord(secrets, id);
    if (found === undefined) return;
    const { consumer, version } = found;
    const { auditEvents: waiting = [] } = consumer;
    const { auditEvents: left = [] } = withoutEvents(consumer, eventIds);
    if (consumer.revokedAt !== undefined && left.length === 0) {
      await secrets.delete(consumerSecretName(id), version);
    } else if (left.length < waiting.length) await save({ ...consumer, auditEvents: left }, version);
  }

  return {
    revoke: async (id, author, version) => {
      const name = consumerSecretName(id);
      const secret = await secrets.read(name);
      if (secret === undefined) return undefined;
      if (version !== undefined && version !== secret.version)
        throw new VersionConflict(`${name} was changed by another writer`);
      const before = parseOrReplace(id, secret.value, clock());
      if (before.revokedAt !== undefined) return undefined;
      // First, so that every process that sees the deletion knows that it was intended.
      await noteRevocation(id);
      const at = new Date(clock()).toISOString();
      const bare = {
        ...before,
        permissions: [],
        credentials: [],
        enabled: false,
        updatedAt: at,
        revokedAt: at,
      };
      const consumer = recordChange(before, bare, author, clock(), 'consumer.revoked');
      return { consumer, version: await save(consumer, secret.version) };
    },
    forgetEvents: (id, eventIds) =>
      forget(id, eventIds).catch((err: unknown) => {
        if (!(err instanceof VersionConflict))
          log.warn({ err, consumer_id: id }, "couldn't remove recorded changes from a consumer's record");
      }),
  };
}

async function readRecord(secrets: SecretsManager, id: string): Promise<VersionedConsumer | undefined> {
  const name = consumerSecretName(id);
  const secret = await secrets.read(name);
  return secret && { consumer: parseConsumer(name, secret.value), version: secret.version };
}

function unlessBroken(error: unknown): 'broken' {
  if (error instanceof BrokenConsumer) return 'broken';
  throw error;
}

function parseOrReplace(id: string, value: string, now: number): Consumer {
  try {
    return parseConsumer(consumerSecretName(id), value);
  } catch (error) {
    if (!(error instanceof BrokenConsumer)) throw error;
    const at = new Date(now).toISOString();
    const bare = { id, name: id, permissions: [], certificateFingerprints: [], credentials: [] };
    return { ...bare, createdAt: at, updatedAt: at, rotatedAt: null };
  }
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
