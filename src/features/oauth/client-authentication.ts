import { createHash, createPublicKey } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose';
import { sql } from 'kysely';
import {
  type Authenticate,
  type Authentication,
  missing,
  unknownKey,
} from '../../identity/consumers/authentication.ts';
import { isConsumerId } from '../../identity/consumers/credentials.ts';
import type { ConsumerDirectory } from '../../identity/consumers/directory.ts';
import type { IndexEntry, Refused } from '../../identity/consumers/directory-index.ts';
import { algorithmsOf, type PublicKey, publicKeyName } from '../../identity/consumers/public-keys.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { changeInChunks } from '../../platform/store/statements.ts';
import { OAuthError } from './oauth-error.ts';

/** RFC 7523 section 2.2. */
export const assertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
export const assertionSeconds = 300;
const clockSkewSeconds = 10;
const maxAssertionLength = 8192;
const maxJtiLength = 255;

export interface ClientAuthenticationOptions {
  authenticate: Authenticate;
  directory: Pick<ConsumerDirectory, 'find' | 'consumer' | 'lookUp' | 'catchUp'>;
  assertions: AssertionsTable;
  publicUrl: () => string;
  /** Milliseconds since 1970. */
  clock: () => number;
}

type Fields = ReadonlyMap<string, string>;

/**
 * Finds out which consumer asks for a token: by its pair, in the header (client_secret_basic) or the form
 * (client_secret_post), or by an assertion (private_key_jwt). Throws `OAuthError` where there is more than one of them.
 */
export function createClientAuthentication(options: ClientAuthenticationOptions) {
  return async (fields: Fields, { authorization }: IncomingHttpHeaders): Promise<Authentication> => {
    const secret = fields.get('client_secret');
    const assertion = fields.get('client_assertion');
    const ways = [authorization, secret, assertion ?? fields.get('client_assertion_type')];
    if (ways.filter((way) => way !== undefined).length > 1)
      throw new OAuthError(
        'invalid_request',
        'Authenticate in one way only: by header, client_secret or client_assertion.',
      );
    const byForm = () => byPair(fields.get('client_id'), secret, options);
    const bySigned = () => (assertion === undefined ? byForm() : byAssertion(assertion, fields, options));
    const found = await (authorization === undefined
      ? bySigned()
      : byHeader(authorization, fields.get('client_id'), options));
    return found.result === 'accepted' ? found : { advice: howToAuthenticate, ...found };
  };
}

const howToAuthenticate =
  'Authenticate as a client that exists, by Authorization: Basic, client_secret or client_assertion.';

async function byPair(
  apiKey: string | undefined,
  apiSecret: string | undefined,
  { authenticate }: ClientAuthenticationOptions,
) {
  const found = await authenticate({ apiKey, apiSecret });
  return found.result === 'accepted' || apiKey === undefined ? found : { ...found, credential: apiKey };
}

/** Both halves are percent-encoded (RFC 6749 section 2.3.1); of clients that do not encode them, nothing changes. */
async function byHeader(
  authorization: string,
  clientId: string | undefined,
  options: ClientAuthenticationOptions,
) {
  const [, base64] = /^basic +([A-Za-z0-9+/=_-]+)$/i.exec(authorization) ?? [];
  if (base64 === undefined) return missing;
  const [id = '', ...rest] = Buffer.from(base64, 'base64').toString('latin1').split(':');
  const [apiKey, apiSecret] = [decoded(id), decoded(rest.join(':'))];
  if (clientId !== undefined && clientId !== apiKey)
    throw new OAuthError('invalid_request', 'client_id is another one than in the Authorization header.');
  return byPair(apiKey, apiSecret, options);
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

async function byAssertion(
  assertion: string,
  fields: Fields,
  options: ClientAuthenticationOptions,
): Promise<Authentication> {
  if (fields.get('client_assertion_type') !== assertionType)
    throw new OAuthError('invalid_request', `client_assertion_type must be ${assertionType}.`);
  const consumerId = subjectOf(assertion);
  if (consumerId === undefined) return unknownKey;
  const clientId = fields.get('client_id');
  if (clientId !== undefined && clientId !== consumerId) return unknownKey;
  const { directory } = options;
  await directory.catchUp();
  if (directory.consumer(consumerId) === undefined) await directory.lookUp(consumerId, consumerId);
  const found = await findSigner(assertion, consumerId, options);
  if (!('entry' in found)) return found;
  return checkClaims(found, options);
}

interface Signed {
  entry: IndexEntry;
  payload: JWTPayload;
}

async function findSigner(
  assertion: string,
  consumerId: string,
  options: ClientAuthenticationOptions,
): Promise<Signed | Refused> {
  const { directory } = options;
  const { alg = '', kid } = decodeProtectedHeader(assertion);
  const consumer = directory.consumer(consumerId);
  if (consumer === undefined) return unknownKey;
  const { publicKeys = [] } = consumer;
  const mayHaveSigned = (key: PublicKey) =>
    algorithmsOf(key).includes(alg) && (kid === undefined || (key.kid ?? kid) === kid);
  for (const key of publicKeys.filter(mayHaveSigned)) {
    const entry = directory.find(publicKeyName(consumerId, key));
    if (entry === undefined) continue;
    const found = await verify(assertion, alg, key, { ...options, consumerId });
    if (found !== undefined) return 'result' in found ? found : { entry, payload: found.payload };
  }
  return { result: 'wrong_secret', consumerId };
}

/** Undefined where another key has signed. */
async function verify(
  assertion: string,
  alg: string,
  key: PublicKey,
  { consumerId, publicUrl, clock }: ClientAuthenticationOptions & { consumerId: string },
): Promise<{ payload: JWTPayload } | Refused | undefined> {
  try {
    return await jwtVerify(assertion, createPublicKey({ key: { ...key }, format: 'jwk' }), {
      algorithms: [alg],
      issuer: consumerId,
      subject: consumerId,
      audience: publicUrl(),
      requiredClaims: ['exp', 'jti'],
      clockTolerance: clockSkewSeconds,
      currentDate: new Date(clock()),
    });
  } catch (error) {
    const isSigned = error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired;
    if (isSigned) return refused(consumerId, adviceFor(error.claim, publicUrl()));
    if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** Checks the first use last, so that no faulty assertion uses an id up. */
async function checkClaims(
  { entry, payload }: Signed,
  options: ClientAuthenticationOptions,
): Promise<Authentication> {
  const { consumerId } = entry;
  const wrong = wrongClaimIn(payload, options.clock() / 1000);
  if (wrong !== undefined) return refused(consumerId, adviceFor(wrong, options.publicUrl()));
  if (!entry.isEnabled) return entry.refusedFor('disabled');
  if (entry.isExpired(options.clock())) return entry.refusedFor('expired');
  const { exp = 0, jti = '' } = payload;
  const isFirst = await options.assertions.useOnce(consumerId, jti, new Date(exp * 1000));
  return isFirst
    ? entry
    : refused(consumerId, 'jti of the assertion was used before; make a new assertion each time.');
}

/** `now`: in seconds since 1970. */
function wrongClaimIn({ aud, exp = 0, iat, jti }: JWTPayload, now: number): string | undefined {
  const latest = now + clockSkewSeconds;
  const wrong: Record<string, boolean> = {
    aud: Array.isArray(aud) && aud.length !== 1,
    exp: exp <= now || exp > latest + assertionSeconds,
    iat: iat !== undefined && iat > latest,
    jti: typeof jti !== 'string' || jti === '' || jti.length > maxJtiLength,
  };
  return Object.keys(wrong).find((claim) => wrong[claim]);
}

/** The caller has proved who it is, so nobody else learns what is wrong. */
function refused(consumerId: string, advice: string): Refused {
  return { result: 'wrong_secret', consumerId, advice };
}

function adviceFor(claim: string, issuer: string): string {
  const rules: Record<string, string> = {
    aud: `must be ${issuer} and nothing else`,
    exp: `must be in the next ${assertionSeconds} seconds`,
    nbf: 'is in the future: check the clock',
    iat: 'is in the future: check the clock',
    jti: `must be a text of 1 to ${maxJtiLength} characters, another one each time`,
  };
  return `${claim} of the assertion ${rules[claim] ?? 'must be the id of the consumer'}.`;
}

function subjectOf(assertion: string): string | undefined {
  if (assertion.length > maxAssertionLength) return undefined;
  try {
    decodeProtectedHeader(assertion);
    const { sub } = decodeJwt(assertion);
    return typeof sub === 'string' && isConsumerId(sub) ? sub : undefined;
  } catch {
    return undefined;
  }
}

const assertionsDeletedAtOnce = 10_000;

export class AssertionsTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Notes the id; false where it is there already. Throws `Problem` store_unavailable. */
  async useOnce(consumerId: string, jti: string, expiresAt: Date): Promise<boolean> {
    // A hash has one length, and no character that the database does not take.
    const digest = createHash('sha256').update(jti).digest('base64url');
    const { numAffectedRows } = await orUnavailable(
      () =>
        sql`
        insert into used_assertions (consumer_id, jti_hash, expires_at)
        values (${consumerId}, ${digest}, ${expiresAt}) on conflict do nothing`.execute(this.#database.sql),
      { keeps: 'notes which assertions were used' },
    );
    return numAffectedRows === 1n;
  }

  deleteExpired(signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from used_assertions where (consumer_id, jti_hash) in (
        select consumer_id, jti_hash from used_assertions where expires_at < now() - interval '1 hour' limit ${limit})`;
    return changeInChunks(this.#database.bulk, assertionsDeletedAtOnce, statement, signal);
  }
}
