import { createSecretKey } from 'node:crypto';
import { modeOf } from '../../platform/base/call.ts';
import { randomBytes } from '../../platform/base/chance.ts';
import { defineOffer } from '../../platform/base/offers.ts';
import { Problem } from '../../platform/base/problem.ts';
import { hashSecret, isSameHash, maxCredentialLength } from './credentials.ts';
import type { ConsumerDirectory } from './directory.ts';
import type { Accepted, IndexEntry, Refused } from './directory-index.ts';
import type { Keys } from './keys.ts';

/** Undefined or empty: the header was not sent. */
export interface PresentedCredentials {
  apiKey: string | undefined;
  apiSecret: string | undefined;
  token?: string | undefined;
  session?: string | undefined;
}

export type Authentication = Accepted | Refused;

/**
 * Identifies the caller, synchronously for every loaded key. A promise is returned only for an unknown key that is worth
 * one read of the secrets manager, and after a pause of the process. Never fails.
 */
export type Authenticate = (presented: PresentedCredentials) => Authentication | Promise<Authentication>;

export interface BearerTokens {
  /** As `Authenticate`. May throw `Problem` secrets_unavailable. */
  authenticate(token: string): Authentication | Promise<Authentication>;
  /** Where clients of a route find out how to get one (RFC 9728). `path`: undefined where there is no such route. */
  metadataUrl(path: string | undefined): string;
}

export const bearerTokens = defineOffer<BearerTokens>('bearer tokens');

export interface Sessions {
  sessionIn(cookies: string | undefined): string | undefined;
  /** Throws `Problem` store_unavailable. */
  authenticate(session: string): Promise<Authentication>;
  label: string;
  isOnly: boolean;
}

export const sessions = defineOffer<Sessions>('sessions');

export function withSessions(authenticate: Authenticate, people: Sessions | undefined): Authenticate {
  if (people === undefined) return authenticate;
  return (presented) =>
    presented.session ? people.authenticate(presented.session) : authenticate(presented);
}

export function withTokens(authenticate: Authenticate, tokens: BearerTokens | undefined): Authenticate {
  if (tokens === undefined) return authenticate;
  return (presented) => (presented.token ? tokens.authenticate(presented.token) : authenticate(presented));
}

/**
 * Decides by what is known once this process has caught up with what happened while it paused, and again where it pauses while it
 * decides.
 */
export function caughtUp<T>(
  authenticate: (presented: T) => Authentication | Promise<Authentication>,
  directory: Pick<ConsumerDirectory, 'catchUp'>,
) {
  const decide = (presented: T): Authentication | Promise<Authentication> => {
    const catchingUp = directory.catchUp();
    if (catchingUp !== undefined) return catchingUp.then(() => decide(presented));
    const found = authenticate(presented);
    if (!(found instanceof Promise)) return found;
    return found.then((later) => (directory.catchUp() === undefined ? later : decide(presented)));
  };
  return decide;
}

export function liveOnly<G extends unknown[]>(
  authenticate: (...given: G) => Authentication | Promise<Authentication>,
): typeof authenticate {
  const check = (found: Authentication): Authentication =>
    modeOf(found.consumerId) === 'test' ? { result: 'disabled', consumerId: found.consumerId } : found;
  return (...given) => {
    const found = authenticate(...given);
    return found instanceof Promise ? found.then(check) : check(found);
  };
}

export const missing: Refused = { result: 'missing', consumerId: null };
export const unknownKey: Refused = { result: 'unknown_key', consumerId: null };

/** Pepper for unknown keys, so that their check takes as long as that of a wrong secret. */
const dummyPepper = createSecretKey(randomBytes(32));
const dummyHash = randomBytes(32);

export function createAuthentication({
  directory,
  keys,
  clock,
}: {
  directory: ConsumerDirectory;
  keys: Keys;
  /** Milliseconds since 1970. */
  clock: () => number;
}): Authenticate {
  const check = (entry: IndexEntry, apiSecret: string): Authentication => {
    if (!isSecretRight(entry, apiSecret, keys)) return entry.refusedFor('wrong_secret');
    if (!entry.isEnabled) return entry.refusedFor('disabled');
    return entry.isExpired(clock()) ? entry.refusedFor('expired') : entry;
  };
  const refuse = (apiKey: string, apiSecret: string): Authentication => {
    isSecretRight(undefined, apiSecret, keys);
    return directory.findGone(apiKey) ?? unknownKey;
  };
  const lookUp = (apiKey: string, apiSecret: string): Authentication | Promise<Authentication> =>
    directory.lookUp(apiKey)?.then(() => {
      const entry = directory.find(apiKey);
      return entry === undefined ? refuse(apiKey, apiSecret) : check(entry, apiSecret);
    }) ?? refuse(apiKey, apiSecret);
  const authenticateOther = (entry: IndexEntry | undefined, { apiKey, apiSecret }: PresentedCredentials) => {
    if (!apiKey) return missing;
    if (!isPresentable(apiKey)) return unknownKey;
    const known = entry?.refusedFor('wrong_secret') ?? directory.findGone(apiKey);
    if (!apiSecret) return withoutSecret(known);
    if (!isPresentable(apiSecret)) return known ?? unknownKey;
    return known === undefined ? lookUp(apiKey, apiSecret) : refuse(apiKey, apiSecret);
  };
  return (presented) => {
    const { apiKey, apiSecret } = presented;
    const entry = isPresentable(apiKey) ? directory.find(apiKey) : undefined;
    if (entry !== undefined && isPresentable(apiSecret)) return check(entry, apiSecret);
    return authenticateOther(entry, presented);
  };
}

/** One answer for every reason: the reason is in the audit log only. */
export function invalidCredentials(
  advice = 'Send valid credentials in the headers x-api-key and x-api-secret.',
): Problem {
  return new Problem('invalid_credentials', advice);
}

function isPresentable(text: string | undefined): text is string {
  return text !== undefined && text !== '' && text.length <= maxCredentialLength;
}

function withoutSecret(known: Refused | undefined): Refused {
  return known === undefined ? missing : { ...missing, consumerId: known.consumerId };
}

function isSecretRight(entry: IndexEntry | undefined, apiSecret: string, keys: Keys): boolean {
  const key = entry === undefined ? undefined : keys.loaded?.pepper.get(entry.pepperVersion);
  const hash = hashSecret(apiSecret, key ?? dummyPepper);
  const isSame = entry === undefined ? isSameHash(hash, dummyHash) : entry.hasHash(hash);
  return isSame && key !== undefined;
}
