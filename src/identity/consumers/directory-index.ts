import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { compileNetworks } from '../../platform/base/networks.ts';
import { type Consumer, expiryOf, type StoredCredential } from './consumer.ts';
import { isSameHash } from './credentials.ts';
import { publicKeyName } from './public-keys.ts';
import type { Caller } from './scopes.ts';

export interface Accepted {
  readonly result: 'accepted';
  readonly consumer: Caller;
  readonly consumerId: string;
  readonly credential: string;
  admitsFrom(address: string): boolean;
}

export interface Refused {
  readonly result: 'missing' | 'unknown_key' | 'wrong_secret' | 'disabled' | 'expired' | 'revoked';
  readonly consumerId: string | null;
  readonly credential?: string;
  /** Shown only to a caller that has proved who it is. */
  readonly advice?: string;
}

type Addresses = (address: string) => boolean;

export class IndexEntry implements Accepted {
  readonly result = 'accepted';
  readonly consumer: Consumer;
  readonly consumerId: string;
  readonly credential: string;
  readonly pepperVersion: number;
  isWithdrawn = false;
  /** One character a byte: a text lies beside its entry in memory, bytes would lie elsewhere. */
  readonly #hash: string;
  /** Milliseconds since 1970 from which on the pair is refused; undefined: never. */
  readonly #expiresAt: number | undefined;
  readonly #addresses: Addresses | undefined;

  constructor(consumer: Consumer, credential: StoredCredential, addresses?: Addresses) {
    this.consumer = consumer;
    this.#addresses = addresses;
    this.consumerId = consumer.id;
    this.credential = credential.apiKey;
    this.pepperVersion = credential.pepperVersion;
    this.#hash = Buffer.from(credential.hash, 'base64url').toString('latin1');
    const { validUntil = null } = consumer;
    const expiresAt = Math.min(
      expiryOf(credential),
      validUntil === null ? Number.POSITIVE_INFINITY : Date.parse(validUntil),
    );
    // Over since the consumer was changed: the clock of a replica may be behind that of the one that changed it.
    const isOver = expiresAt <= Date.parse(consumer.updatedAt);
    this.#expiresAt = isOver ? 0 : expiresAt === Number.POSITIVE_INFINITY ? undefined : expiresAt;
  }

  hasHash(hash: Buffer): boolean {
    return isSameHash(hash, Buffer.from(this.#hash, 'latin1'));
  }

  get isEnabled(): boolean {
    return this.consumer.enabled !== false;
  }

  admitsFrom(address: string): boolean {
    return this.#addresses === undefined || this.#addresses(address);
  }

  /** A pair whose expiry is no date counts as expired. */
  isExpired(now: number): boolean {
    return this.#expiresAt !== undefined && !(now < this.#expiresAt);
  }

  refusedFor(result: Refused['result']): Refused {
    return { result, consumerId: this.consumerId };
  }
}

export type ListPosition = Pick<Consumer, 'createdAt' | 'id'>;

const maxGone = 10_000;

export class DirectoryIndex {
  readonly #entries = new Map<string, IndexEntry>();
  readonly #loaded = new Map<
    string,
    {
      version: string;
      /** Undefined: the record is broken. */
      consumer: Consumer | undefined;
    }
  >();
  readonly #gone = new Map<string, Refused>();
  #newestFirst: readonly Consumer[] | undefined;

  get size(): number {
    return this.#loaded.size;
  }

  find(apiKey: string): IndexEntry | undefined {
    return this.#entries.get(apiKey);
  }

  /** How to refuse a key that was valid once: so the audit knows its consumer. */
  findGone(apiKey: string): Refused | undefined {
    return this.#gone.get(apiKey);
  }

  /** Version of the secret that is loaded, undefined where none is. */
  versionOf(id: string): string | undefined {
    return this.#loaded.get(id)?.version;
  }

  consumer(id: string): Consumer | undefined {
    return this.#loaded.get(id)?.consumer;
  }

  newestFirst(): readonly Consumer[] {
    this.#newestFirst ??= [...this.#loaded.values()]
      .flatMap(({ consumer }) => consumer ?? [])
      .sort((a, b) => compareNewestFirst(a, b));
    return this.#newestFirst;
  }

  ids(): string[] {
    return [...this.#loaded.keys()];
  }

  set(id: string, version: string, consumer: Consumer | undefined, now: number): void {
    const before = this.#loaded.get(id)?.consumer;
    this.#loaded.set(id, { version, consumer });
    this.#newestFirst = undefined;
    this.#withdraw(before, now);
    if (consumer === undefined) return;
    const { allowedAddresses = [] } = consumer;
    const addresses = allowedAddresses.length === 0 ? undefined : compileNetworks(allowedAddresses);
    for (const credential of credentialsOf(consumer)) {
      this.#entries.set(credential.apiKey, new IndexEntry(consumer, credential, addresses));
      this.#gone.delete(credential.apiKey);
    }
  }

  remove(id: string, now: number): void {
    const before = this.#loaded.get(id)?.consumer;
    this.#loaded.delete(id);
    this.#newestFirst = undefined;
    this.#withdraw(before, now);
  }

  #withdraw(consumer: Consumer | undefined, now: number): void {
    if (consumer === undefined) return;
    for (const { apiKey } of credentialsOf(consumer)) {
      const entry = this.#entries.get(apiKey);
      this.#entries.delete(apiKey);
      if (entry === undefined) continue;
      entry.isWithdrawn = true;
      this.#gone.set(apiKey, entry.refusedFor(entry.isExpired(now) ? 'expired' : 'revoked'));
    }
    forgetOldest(this.#gone, maxGone);
  }
}

function credentialsOf({ id, credentials, publicKeys = [] }: Consumer): StoredCredential[] {
  const ofKeys = publicKeys.map((key) => ({ ...noPair, apiKey: publicKeyName(id, key) }));
  return [...credentials, ...ofKeys];
}

const noPair = {
  hash: '',
  algorithm: 'hmac-sha256',
  pepperVersion: 0,
  state: 'active',
  createdAt: '',
  expiresAt: null,
} as const;

/** Place of a consumer in a list that is newest first; by code units, so that it is the same everywhere. */
export function compareNewestFirst(a: ListPosition, b: ListPosition): number {
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? 1 : -1;
  return a.id === b.id ? 0 : a.id < b.id ? 1 : -1;
}
