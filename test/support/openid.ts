import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { exportJWK, SignJWT } from 'jose';
import Provider from 'oidc-provider';

export const clientId = 'gateway';
export const clientSecret = 'client-secret-of-the-gateway-for-tests';

export interface OpenidServer {
  issuer: string;
  stop(): Promise<void>;
}

/** The provider of a company, at which anybody is signed in as `person` without a form. */
export interface Company extends OpenidServer {
  /** Claims of who signs in next; `sub` names the person. */
  person: { sub: string; [claim: string]: unknown };
  /** Begins to answer, for a gateway at this address. */
  serve(gatewayUrl: string): void;
}

/** Listens at once; until `serve` it answers 503. */
export async function startCompany(): Promise<Company> {
  const people = new Map<string, object>();
  let provider: Provider | undefined;
  const { server, issuer } = await listen((request, response) => {
    if (provider === undefined) return void response.writeHead(503).end();
    if (!request.url?.startsWith('/interaction/')) return provider.callback()(request, response);
    people.set(company.person.sub, company.person);
    const result = { login: { accountId: company.person.sub } };
    return void provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  });
  const company: Company = {
    issuer,
    person: { sub: 'nobody' },
    serve: (gatewayUrl) => {
      provider = createProvider(issuer, gatewayUrl, people);
    },
    stop: () => close(server),
  };
  return company;
}

function createProvider(issuer: string, gatewayUrl: string, people: ReadonlyMap<string, object>): Provider {
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [`${gatewayUrl}/console/callback`],
        post_logout_redirect_uris: [`${gatewayUrl}/console/`],
        response_types: ['code'],
        grant_types: ['authorization_code'],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    jwks: { keys: [{ ...key, alg: 'RS256', use: 'sig', kid: 'first' }] },
    cookies: { keys: ['cookies-of-the-test'] },
    claims: { openid: ['sub', 'groups', 'email', 'email_verified', 'preferred_username', 'name'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: true } },
    interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_: unknown, accountId: string) => ({ accountId, claims: () => people.get(accountId) }),
    async loadExistingGrant({
      oidc,
    }: {
      oidc: { client: { clientId: string }; session: { accountId: string } };
    }) {
      const grant = new provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
      grant.addOIDCScope('openid email profile');
      await grant.save();
      return grant;
    },
  });
  return provider;
}

/** A provider that answers with whatever the test has it say. */
export interface MadeUpIssuer extends OpenidServer {
  /** Claims of the next ID token beside the right ones; undefined leaves one out. */
  claims: { [name: string]: unknown };
  /** What it says of itself beside the usual. */
  metadata: { [name: string]: unknown };
  /** In place of the answer of the token endpoint. */
  tokenAnswer: ((response: ServerResponse) => void) | undefined;
  /** Signs with another key from now on; the old one is no longer published. */
  rotate(): void;
  /** Signs with a key that it does not publish. */
  forge: boolean;
  /** The parameters with which a browser was sent here last. */
  asked: URLSearchParams;
  /** Requests of the token endpoint, by path. */
  requests: string[];
}

export async function startMadeUpIssuer(): Promise<MadeUpIssuer> {
  const makeKey = () => ({
    kid: crypto.randomUUID(),
    ...generateKeyPairSync('rsa', { modulusLength: 2048 }),
  });
  let key = makeKey();
  const nonces = new Map<string, string>();
  const unknown = { ...makeKey(), kid: key.kid };
  const sign = (code: string | null) => {
    const now = Math.floor(Date.now() / 1000);
    const right = { iss: issuer, aud: clientId, sub: 'marta', iat: now, exp: now + 300 };
    const { privateKey, kid } = made.forge ? { ...unknown, kid: key.kid } : key;
    const nonce = nonces.get(code ?? '') ?? '';
    return new SignJWT({ ...right, nonce, ...made.claims })
      .setProtectedHeader({ alg: 'RS256', kid })
      .sign(privateKey);
  };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url ?? '', issuer);
    made.requests.push(pathname);
    const send = (body: object) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (pathname === '/jwks') {
      send({ keys: [{ ...(await exportJWK(key.publicKey)), kid: key.kid, alg: 'RS256', use: 'sig' }] });
    } else if (pathname === '/token') {
      if (made.tokenAnswer) return made.tokenAnswer(response);
      const form = new URLSearchParams(await text(request));
      send({ access_token: 'a', token_type: 'Bearer', id_token: await sign(form.get('code')) });
    } else if (pathname === '/authorize') {
      made.asked = searchParams;
      const back = new URL(searchParams.get('redirect_uri') ?? '');
      const code = crypto.randomUUID();
      nonces.set(code, searchParams.get('nonce') ?? '');
      back.search = new URLSearchParams({ code, state: searchParams.get('state') ?? '' }).toString();
      response.writeHead(303, { location: back.href }).end();
    } else if (pathname === '/userinfo') {
      send({ sub: 'marta', groups: ['admins'], email: 'boss@example.com', email_verified: true });
    } else send({ ...metadataOf(issuer), ...made.metadata });
    return undefined;
  };
  const { server, issuer } = await listen((request, response) => void answer(request, response));
  const made: MadeUpIssuer = {
    issuer,
    claims: {},
    metadata: {},
    tokenAnswer: undefined,
    forge: false,
    asked: new URLSearchParams(),
    requests: [],
    rotate: () => {
      key = makeKey();
    },
    stop: () => close(server),
  };
  return made;
}

const metadataOf = (issuer: string) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/jwks`,
  userinfo_endpoint: `${issuer}/userinfo`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
});

async function listen(handle: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}

/** A browser with cookies of its own for each host and port, that follows redirects as links of the console do. */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>();

  /** The cookie that a page of that origin is sent with. */
  cookie(origin: string, name: string): string | undefined {
    return this.#cookies.get(origin)?.get(name);
  }

  setCookie(origin: string, name: string, value: string): void {
    const jar = this.#cookies.get(origin) ?? new Map<string, string>();
    this.#cookies.set(origin, jar.set(name, value));
  }

  /** One request, without following what it answers. */
  async send(url: string, init: RequestInit = {}): Promise<Response> {
    const { origin } = new URL(url);
    const cookies = [...(this.#cookies.get(origin) ?? [])].map(([name, value]) => `${name}=${value}`);
    const headers = { ...(cookies.length > 0 && { cookie: cookies.join('; ') }), ...init.headers };
    const response = await fetch(url, { ...init, headers, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/max-age=0|expires=Thu, 01 Jan 1970/i.test(line)) this.#cookies.get(origin)?.delete(name);
      else this.setCookie(origin, name, value);
    }
    return response;
  }

  /** Follows redirects until a page, or until one leads to an address that `stopAt` names. */
  async open(url: string, stopAt?: string): Promise<{ url: string; response: Response | undefined }> {
    for (let steps = 0; steps < 12; steps++) {
      if (stopAt !== undefined && url.startsWith(stopAt)) return { url, response: undefined };
      const response = await this.send(url);
      const location = response.headers.get('location');
      if (location === null || response.status < 300) return { url, response };
      url = new URL(location, url).href;
    }
    throw new Error('too many redirects');
  }

  /** As the console's own scripts send it. */
  ask(
    url: string,
    { method = 'GET', body, headers }: { method?: string; body?: object; headers?: object } = {},
  ) {
    return this.send(url, {
      method,
      headers: {
        'sec-fetch-site': 'same-origin',
        ...(method !== 'GET' && { 'x-handoff-session': '1' }),
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    });
  }
}
