import { createPublicKey, type KeyObject } from 'node:crypto';
import { compactVerify, decodeJwt, type JWTPayload } from 'jose';

/** A refusal of the token endpoint: always 400, as RFC 6749 section 5.2 with Salesforce's own descriptions. */
export class OAuthError extends Error {
  readonly error: string;
  readonly status: number;

  constructor(error: string, description: string, status = 400) {
    super(description);
    this.error = error;
    this.status = status;
  }
}

export interface AssertionRules {
  clientId: string;
  username: string;
  keys: KeyObject[];
  audience: string[];
  /** The app signs in at the org's own address only: `login.` and `test.` hosts do not know it (since Spring '26). */
  ownAddressOnly: boolean;
  /** Also refuse an `exp` more than five minutes ahead; whether an org does is not documented. */
  strict: boolean;
}

const MAX_VALIDITY_SECONDS = 300;

/**
 * Keys from PEM text: public keys or X.509 certificates.
 * @throws Error naming the position of the one that can't be read, without its content.
 */
export function readPublicKeys(pems: string[]): KeyObject[] {
  return pems.map((pem, index) => {
    try {
      return createPublicKey(pem);
    } catch {
      throw new Error(`public key ${index + 1} is neither a PEM public key nor a PEM certificate`);
    }
  });
}

function decode(assertion: string): JWTPayload {
  try {
    return decodeJwt(assertion);
  } catch {
    throw new OAuthError('invalid_grant', 'invalid assertion');
  }
}

async function verifySignature(assertion: string, keys: KeyObject[]): Promise<void> {
  for (const key of keys) {
    try {
      await compactVerify(assertion, key, { algorithms: ['RS256'] });
      return;
    } catch {
      // The next key may be the right one: two are uploaded while one replaces the other.
    }
  }
  throw new OAuthError('invalid_grant', 'invalid assertion');
}

/** A host by which Salesforce signs users of every org in, or of every sandbox; under `localhost` to try it. */
function isLoginHost(host: string | undefined): boolean {
  return /^(login|test)\.(salesforce\.com|localhost)$/i.test(host ?? '');
}

function appNotFound(): OAuthError {
  return new OAuthError('app_not_found', 'External client app is not installed in this org');
}

function checkAudience(payload: JWTPayload, { audience: accepted, ownAddressOnly }: AssertionRules): void {
  const given = [payload.aud ?? []].flat();
  if (ownAddressOnly && given.some((audience) => isLoginHost(URL.parse(audience)?.hostname)))
    throw appNotFound();
  if (!given.some((audience) => accepted.includes(audience))) {
    throw new OAuthError('invalid_grant', 'audience is invalid');
  }
}

function checkExpiry(payload: JWTPayload, strict: boolean): void {
  const now = Date.now() / 1000;
  if (typeof payload.exp !== 'number') throw new OAuthError('invalid_grant', 'invalid assertion');
  if (payload.exp <= now) throw new OAuthError('invalid_grant', 'expired authorization code');
  if (strict && payload.exp > now + MAX_VALIDITY_SECONDS)
    throw new OAuthError('invalid_grant', 'invalid assertion');
}

/**
 * Checks a JWT bearer assertion: key of the app, signature, audience, validity, user.
 * @param host to which the request was sent.
 * @throws OAuthError with the error and description of each cause.
 */
export async function checkAssertion(
  assertion: string,
  host: string | undefined,
  rules: AssertionRules,
): Promise<void> {
  if (rules.ownAddressOnly && isLoginHost(host?.replace(/:\d+$/, ''))) throw appNotFound();
  const payload = decode(assertion);
  if (payload.iss !== rules.clientId) throw new OAuthError('invalid_client_id', 'client identifier invalid');
  await verifySignature(assertion, rules.keys);
  checkAudience(payload, rules);
  checkExpiry(payload, rules.strict);
  // An unknown user and one that never approved the app are answered alike.
  if (payload.sub !== rules.username)
    throw new OAuthError('invalid_grant', "user hasn't approved this consumer");
}
