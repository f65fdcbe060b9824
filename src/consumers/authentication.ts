import { createSecretKey, randomBytes, timingSafeEqual } from 'node:crypto';
import { hashSecret, maxCredentialLength } from './credentials.ts';
import type { ConsumerDirectory } from './directory.ts';
import type { Accepted, IndexEntry, Refused } from './directory-index.ts';
import type { Keys } from './keys.ts';

/** What a caller presents; undefined or empty: the header was not sent. */
export interface PresentedCredentials {
  apiKey: string | undefined;
  apiSecret: string | undefined;
}

export type Authentication = Accepted | Refused;

/**
 * Says who the caller is, at once for every key that is loaded; the promise is for an unknown key that is worth one
 * read of the secrets manager. Never fails.
 */
export type Authenticate = (presented: PresentedCredentials) => Authentication | Promise<Authentication>;

const missing: Refused = { result: 'missing', consumerId: null };
const unknownKey: Refused = { result: 'unknown_key', consumerId: null };

/** What an unknown key is checked against, so that it takes as long as a wrong secret. */
const dummyPepper = createSecretKey(randomBytes(32));
const dummyHash = randomBytes(32);

export interface AuthenticationOptions {
  directory: ConsumerDirectory;
  keys: Keys;
  /** Milliseconds since 1970. */
  clock: () => number;
}

export function createAuthentication({ directory, keys, clock }: AuthenticationOptions): Authenticate {
  const check = (apiKey: string, apiSecret: string): Authentication => {
    const entry = directory.find(apiKey);
    const isRight = isSecretRight(entry, apiSecret, keys);
    if (entry === undefined) return directory.findGone(apiKey) ?? unknownKey;
    if (!isRight) return entry.wrongSecret;
    return clock() < entry.expiresAt ? entry.accepted : entry.expired;
  };
  return ({ apiKey, apiSecret }) => {
    if (!apiKey) return missing;
    if (apiKey.length > maxCredentialLength) return unknownKey;
    const known = directory.find(apiKey)?.wrongSecret ?? directory.findGone(apiKey);
    if (!apiSecret) return withoutSecret(known);
    if (apiSecret.length > maxCredentialLength) return known ?? unknownKey;
    const lookUp = known === undefined ? directory.lookUp(apiKey) : undefined;
    return lookUp === undefined ? check(apiKey, apiSecret) : lookUp.then(() => check(apiKey, apiSecret));
  };
}

function withoutSecret(known: Refused | undefined): Refused {
  return known === undefined ? missing : { ...missing, consumerId: known.consumerId };
}

function isSecretRight(entry: IndexEntry | undefined, apiSecret: string, keys: Keys): boolean {
  const key = entry === undefined ? undefined : keys.loaded?.pepper.get(entry.pepperVersion);
  const hash = hashSecret(apiSecret, key ?? dummyPepper);
  return timingSafeEqual(hash, entry?.hash ?? dummyHash) && key !== undefined;
}
