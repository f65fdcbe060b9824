import { isLoopback, isOfEachMachine } from './address.ts';
import { HandoffProblem } from './problem.ts';
import { makeUuid } from './uuid.ts';

/** A private key as JWK (RFC 7517): RSA, EC on P-256 or Ed25519. */
export interface PrivateKeyJwk {
  kty?: string | undefined;
  kid?: string | undefined;
  alg?: string | undefined;
  [name: string]: unknown;
}

/** What of a CryptoKey matters here; its type has other names in Node.js than in browsers. */
export interface PrivateCryptoKey {
  readonly type: string;
  readonly algorithm: { readonly name: string };
}

type Credential = () => string | Promise<string>;

/** The pair. */
export interface PairCredentials {
  /** A function is asked before each request: a pair that is rotated meanwhile takes effect at once. */
  apiKey: string | Credential;
  apiSecret: string | Credential;
  clientId?: undefined;
  privateKey?: undefined;
  accessToken?: undefined;
}

/** A private key that never leaves this program; the service has the public one. Tokens are fetched as they are needed. */
export interface KeyCredentials {
  /** Id of the consumer: `con_…`. */
  clientId: string;
  /** A JWK, or a CryptoKey, which need not be extractable. */
  privateKey: PrivateKeyJwk | Pick<PrivateKeyJwk, 'kty'> | PrivateCryptoKey;
  apiKey?: undefined;
  apiSecret?: undefined;
  accessToken?: undefined;
}

/** Access tokens from elsewhere. */
export interface TokenCredentials {
  /** Asked before each request; it keeps a token for as long as that is valid. */
  accessToken: () => Promise<string>;
  apiKey?: undefined;
  apiSecret?: undefined;
  clientId?: undefined;
  privateKey?: undefined;
}

export type Credentials = PairCredentials | KeyCredentials | TokenCredentials;

/** What a request carries. */
export interface Authorizer {
  headers(): Promise<Record<string, string>>;
  /** After a 401: whether it may help to ask for other headers. */
  renew(): boolean;
}

/** `send`: a request to the service at `baseUrl`. Throws `TypeError` where something is missing, or no header can hold it. */
export function createAuthorizer(
  options: Credentials & { baseUrl: string },
  send: (path: string, init?: RequestInit) => Promise<Response>,
): Authorizer {
  if (options.accessToken !== undefined) return byToken(options.accessToken);
  const { clientId, privateKey } = options;
  if (clientId !== undefined || privateKey !== undefined) {
    const own = { clientId: present('clientId', clientId), privateKey: present('privateKey', privateKey) };
    return byKey(own, options.baseUrl, send);
  }
  return byPair({
    apiKey: present('apiKey', options.apiKey),
    apiSecret: present('apiSecret', options.apiSecret),
  });
}

/** Parts that are texts are checked at once, functions when a request needs them. Throws `TypeError`. */
function byPair({ apiKey, apiSecret }: Pick<PairCredentials, 'apiKey' | 'apiSecret'>): Authorizer {
  if (typeof apiKey === 'string') checkPart('apiKey', apiKey);
  if (typeof apiSecret === 'string') checkPart('apiSecret', apiSecret);
  const valueOf = async (name: string, part: string | Credential) => {
    if (typeof part === 'string') return part;
    const value = present(name, await part());
    checkPart(name, value);
    return value;
  };
  return {
    headers: async () => ({
      'x-api-key': await valueOf('apiKey', apiKey),
      'x-api-secret': await valueOf('apiSecret', apiSecret),
    }),
    renew: () => false,
  };
}

/** fetch refuses others too, but with an error that has them in its text. It leaves out white space at both ends. */
function checkPart(name: string, value: string): void {
  checkHeader(name, value.trim());
}

function present<T>(name: string, value: T | undefined): T {
  if (!value) throw new TypeError(`${name} is missing`);
  return value;
}

function checkHeader(name: string, value: string): void {
  if (!/^[!-~]+$/.test(value)) throw new TypeError(`${name} has characters that no credential has`);
}

function byToken(accessToken: () => Promise<string>): Authorizer {
  return {
    headers: async () => {
      const token = await accessToken();
      checkHeader('accessToken', token);
      return { authorization: `Bearer ${token}` };
    },
    renew: () => false,
  };
}

interface Token {
  value: string;
  /** Of `Date.now()`. */
  usedUntil: number;
}

/** A token is not sent when it is about to expire. */
const marginMs = 30_000;
const assertionSeconds = 60;

/** The key proves who this is (RFC 7523); the token that it gets is used until it expires. */
function byKey(
  { clientId, privateKey }: KeyCredentials,
  baseUrl: string,
  send: (path: string, init?: RequestInit) => Promise<Response>,
): Authorizer {
  let token: Promise<Token> | undefined;

  const fetchToken = async (): Promise<Token> => {
    const { issuer } = (await read(await send('/.well-known/oauth-authorization-server'))) as {
      issuer: string;
    };
    requireIssuer(issuer, baseUrl);
    const body = new URLSearchParams({
      grant_type: 'client_credentials',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: await signAssertion(clientId, privateKey, issuer),
    });
    const answer = await read(await send('/oauth/token', { method: 'POST', body }));
    const { access_token: value, expires_in } = answer as { access_token: string; expires_in: number };
    return { value, usedUntil: Date.now() + expires_in * 1000 - marginMs };
  };
  /** One token at a time, for all calls; one that could not be had is asked for again. */
  const start = (): Promise<Token> => {
    const started = fetchToken();
    token = started;
    started.catch(() => {
      if (token === started) token = undefined;
    });
    return started;
  };
  return {
    headers: async () => {
      const asked = token ?? start();
      const { usedUntil } = await asked;
      if (usedUntil <= Date.now() && token === asked) token = start();
      const { value } = await (token ?? start());
      return { authorization: `Bearer ${value}` };
    },
    renew: () => {
      token = undefined;
      return true;
    },
  };
}

/** A signature for another issuer could be used there, by the server that answers here (RFC 8414 section 3.3). */
function requireIssuer(issuer: string, baseUrl: string): void {
  const [named, asked] = [new URL(issuer), new URL(baseUrl)];
  if (named.origin === asked.origin || (isOfEachMachine(named) && isLoopback(asked))) return;
  throw new TypeError(
    `the service at ${asked.origin} issues tokens as ${issuer}: baseUrl must be that address`,
  );
}

async function read(response: Response): Promise<unknown> {
  const text = await response.text();
  if (!response.ok) throw new HandoffProblem(response, text, undefined);
  return JSON.parse(text) as unknown;
}

interface Algorithm {
  alg: string;
  /** As WebCrypto has it, to import a key and to sign. */
  parameters: { name: string; namedCurve?: string; hash?: string; saltLength?: number };
}

const algorithms: readonly Algorithm[] = [
  { alg: 'ES256', parameters: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } },
  { alg: 'EdDSA', parameters: { name: 'Ed25519' } },
  { alg: 'RS256', parameters: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' } },
  { alg: 'PS256', parameters: { name: 'RSA-PSS', hash: 'SHA-256', saltLength: 32 } },
];
const usualAlgorithms: Record<string, string> = { EC: 'ES256', OKP: 'EdDSA', RSA: 'RS256' };

async function signAssertion(
  clientId: string,
  key: KeyCredentials['privateKey'],
  issuer: string,
): Promise<string> {
  const jwk = 'algorithm' in key ? undefined : (key as PrivateKeyJwk);
  const cryptoKey = key as PrivateCryptoKey;
  const found = algorithms.find(({ alg, parameters }) =>
    jwk
      ? alg === (jwk.kty === 'RSA' ? (jwk.alg ?? 'RS256') : usualAlgorithms[jwk.kty ?? ''])
      : parameters.name === cryptoKey.algorithm.name,
  );
  if (found === undefined) throw new TypeError('privateKey is of a kind that the service does not take');
  const { alg, parameters } = found;
  const { subtle } = globalThis.crypto;
  const imported = jwk
    ? await subtle.importKey(
        'jwk',
        { ...jwk, key_ops: ['sign'], alg: undefined, use: undefined } as object,
        parameters,
        false,
        ['sign'],
      )
    : cryptoKey;
  const now = Math.floor(Date.now() / 1000);
  const times = { iat: now, exp: now + assertionSeconds, jti: makeUuid() };
  const header = { alg, ...(jwk?.kid !== undefined && { kid: jwk.kid }) };
  const text = `${encoded(header)}.${encoded({ iss: clientId, sub: clientId, aud: issuer, ...times })}`;
  const signature = await subtle.sign(parameters, imported as never, new TextEncoder().encode(text));
  return `${text}.${base64url(new Uint8Array(signature))}`;
}

function encoded(value: object): string {
  return base64url(new TextEncoder().encode(JSON.stringify(value)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
