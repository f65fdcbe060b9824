import { hash } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';
import { type Authentication, unknownKey } from '../../identity/consumers/authentication.ts';
import type { ConsumerDirectory } from '../../identity/consumers/directory.ts';
import type { Accepted, IndexEntry } from '../../identity/consumers/directory-index.ts';
import { withinScopes } from '../../identity/consumers/scopes.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { type SigningKeys, tokenSeconds } from './signing-keys.ts';

/** Longer ones are not ours: the longest has every scope. */
const maxTokenLength = 2048;
/** Verified tokens that are remembered, the oldest forgotten first; one that is forgotten is verified again. */
const maxRemembered = 20_000;
const claims = ['iss', 'exp', 'aud', 'sub', 'client_id', 'iat', 'jti', 'scope'];

export interface AccessTokensOptions {
  keys: SigningKeys;
  directory: Pick<ConsumerDirectory, 'find' | 'findGone' | 'lookUp'>;
  publicUrl: () => string;
  /** Milliseconds since 1970. */
  clock: () => number;
}

interface Verified {
  consumerId: string;
  credential: string;
  scopes: ReadonlySet<string>;
  /** Milliseconds since 1970. */
  expiresAt: number;
  entry?: IndexEntry;
  accepted?: Accepted;
}

/** Access tokens as RFC 9068 has them. A public key that has authenticated the consumer is in the claim `key`. */
export function createAccessTokens(options: AccessTokensOptions) {
  const { keys, clock } = options;
  // By hash: what lies in memory is of no use to anybody else.
  const remembered = new Map<string, Verified>();
  let generation = keys.generation;

  const remember = (digest: string, verified: Verified) => {
    remembered.set(digest, verified);
    forgetOldest(remembered, maxRemembered);
  };
  const verifyFirst = async (token: string, digest: string): Promise<Authentication> => {
    const verifiedWith = keys.generation;
    const verified = await verify(token, options);
    if ('result' in verified) return verified;
    // Another replica may have made the consumer or its key a moment ago.
    if (options.directory.find(verified.credential) === undefined)
      await options.directory.lookUp(verified.credential, verified.consumerId);
    const authentication = admit(verified, options);
    // One whose consumer was not found is looked for again; one whose key may be gone by now is verified again.
    if (verified.entry !== undefined && verifiedWith === keys.generation) remember(digest, verified);
    return authentication;
  };
  return {
    /** `credential`: what has authenticated the consumer. Throws `Problem` secrets_unavailable. */
    issue: (consumerId: string, credential: string, scope: string): Promise<string> =>
      sign(consumerId, credential, scope, options),
    authenticate: (token: string): Authentication | Promise<Authentication> => {
      if (token.length > maxTokenLength) return unknownKey;
      if (generation !== keys.generation) remembered.clear();
      generation = keys.generation;
      const digest = hash('sha256', token, 'base64');
      const known = remembered.get(digest);
      if (known === undefined) return verifyFirst(token, digest);
      if (clock() < known.expiresAt) return admit(known, options);
      remembered.delete(digest);
      return { result: 'expired', consumerId: known.consumerId };
    },
  };
}

export type AccessTokens = ReturnType<typeof createAccessTokens>;

function sign(
  consumerId: string,
  credential: string,
  scope: string,
  { keys, publicUrl, clock }: AccessTokensOptions,
) {
  const { kid, private: key } = keys.signing();
  const now = Math.floor(clock() / 1000);
  const thumbprint = credential.split('/')[1];
  const isPair = thumbprint === undefined;
  return new SignJWT({
    client_id: isPair ? credential : consumerId,
    scope,
    ...(!isPair && { key: thumbprint }),
  })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid })
    .setIssuer(publicUrl())
    .setAudience(publicUrl())
    .setSubject(consumerId)
    .setIssuedAt(now)
    .setExpirationTime(now + tokenSeconds)
    .setJti(randomUUID())
    .sign(key);
}

async function verify(
  token: string,
  { keys, publicUrl, clock }: AccessTokensOptions,
): Promise<Verified | Exclude<Authentication, Accepted>> {
  try {
    const { payload } = await jwtVerify(
      token,
      async ({ kid }) => (await keys.find(kid))?.public ?? refuseKey(),
      {
        algorithms: ['ES256'],
        typ: 'at+jwt',
        issuer: publicUrl(),
        audience: publicUrl(),
        requiredClaims: claims,
        currentDate: new Date(clock()),
      },
    );
    const { aud, sub = '', exp = 0 } = payload;
    // The library takes one for us and for others.
    if (aud !== publicUrl()) return unknownKey;
    const { client_id = '', key, scope } = payload as Record<string, string>;
    const credential = key === undefined ? client_id : `${sub}/${key}`;
    return { consumerId: sub, credential, scopes: new Set(String(scope).split(' ')), expiresAt: exp * 1000 };
  } catch (error) {
    // The signature was right.
    if (error instanceof errors.JWTExpired)
      return { result: 'expired', consumerId: error.payload.sub ?? null };
    if (error instanceof errors.JOSEError) return unknownKey;
    throw error;
  }
}

function refuseKey(): never {
  throw new errors.JWKSNoMatchingKey();
}

function admit(verified: Verified, { directory, clock }: AccessTokensOptions): Authentication {
  const { consumerId, credential } = verified;
  if (verified.entry === undefined || verified.entry.isWithdrawn) {
    const entry = directory.find(credential);
    if (entry === undefined || entry.consumerId !== consumerId)
      return directory.findGone(credential) ?? { result: 'revoked', consumerId };
    verified.entry = entry;
    verified.accepted = acceptedAs(verified, entry);
  }
  const { entry, accepted } = verified;
  if (!entry.isEnabled) return entry.refusedFor('disabled');
  if (entry.isExpired(clock())) return entry.refusedFor('expired');
  return accepted as Accepted;
}

function acceptedAs({ consumerId, credential, scopes }: Verified, entry: IndexEntry): Accepted {
  return {
    result: 'accepted',
    consumer: withinScopes(entry.consumer, scopes),
    consumerId,
    credential,
    admitsFrom: (address) => entry.admitsFrom(address),
  };
}
