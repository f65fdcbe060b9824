import * as openid from 'openid-client';
import { monotonicMs } from '../../platform/base/chance.ts';
import { isLoopback } from '../../platform/base/networks.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';

const metadataMs = 300_000;
/** Seconds that the issuer has for each answer. */
const timeoutSeconds = 10;
/** Seconds by which the issuer's clock may differ from ours. */
const clockToleranceSeconds = 60;

/** Characters of an ID token that an address carries at most: of longer addresses issuers say that they are too long. */
const longestHint = 4000;

export interface SignInChecks {
  state: string;
  nonce: string;
  verifier: string;
}

interface ProviderOptions {
  issuer: string;
  clientId: string;
  scopes: string;
  secretName: string;
  secrets: Pick<SecretsManager, 'read'>;
}

export interface IdToken {
  claims: Readonly<Record<string, unknown>>;
  text: string;
}

/** The issuer does not answer, or not as an issuer does. */
export class IssuerUnavailable extends Error {}

export class Provider {
  readonly #options: ProviderOptions;
  #metadata: { server: openid.ServerMetadata; readAt: number } | undefined;
  #reading: Promise<openid.ServerMetadata> | undefined;

  constructor(options: ProviderOptions) {
    this.#options = options;
  }

  /** Where the browser goes to sign in. Throws `IssuerUnavailable`. */
  async signInUrl({ state, nonce, verifier }: SignInChecks, redirectUri: string): Promise<URL> {
    const config = this.#configure(await this.#server(), undefined);
    return openid.buildAuthorizationUrl(config, {
      redirect_uri: redirectUri,
      scope: this.#options.scopes,
      code_challenge: await openid.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
    });
  }

  /** The ID token for the code in this address. Throws `IssuerUnavailable`, `SecretsUnavailable`, and what the library refuses. */
  async finish(callback: URL, { state, nonce, verifier }: SignInChecks): Promise<IdToken> {
    const server = await this.#server();
    const secret = (await this.#options.secrets.read(this.#options.secretName))?.value.trim();
    // A new one each time: it has read no keys yet, so that one that the issuer has changed to is known.
    const config = this.#configure(server, secret);
    try {
      const tokens = await openid.authorizationCodeGrant(config, callback, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      return { claims: tokens.claims() as openid.IDToken, text: tokens.id_token as string };
    } catch (error) {
      throw isOutage(error) ? new IssuerUnavailable("the issuer doesn't answer", { cause: error }) : error;
    }
  }

  /** Where the browser ends the session at the issuer; null where the issuer has no such page that is safe, or was never reached. */
  async signOutUrl(idToken: string, returnTo: string): Promise<string | null> {
    const server = this.#metadata?.server ?? (await this.#server().catch(() => undefined));
    if (server?.end_session_endpoint === undefined) return null;
    try {
      return openid.buildEndSessionUrl(this.#configure(server, undefined), {
        ...(idToken.length <= longestHint && { id_token_hint: idToken }),
        post_logout_redirect_uri: returnTo,
      }).href;
    } catch {
      return null;
    }
  }

  #configure(server: openid.ServerMetadata, secret: string | undefined): openid.Configuration {
    const client = { [openid.clockTolerance]: clockToleranceSeconds };
    const config = new openid.Configuration(
      server,
      this.#options.clientId,
      client,
      authenticationOf(server, secret),
    );
    config.timeout = timeoutSeconds;
    if (isLoopback(new URL(this.#options.issuer))) openid.allowInsecureRequests(config);
    // The signature too: a proxy between us and the issuer may end TLS.
    openid.enableNonRepudiationChecks(config);
    return config;
  }

  async #server(): Promise<openid.ServerMetadata> {
    const known = this.#metadata;
    if (known !== undefined && monotonicMs() - known.readAt < metadataMs) return known.server;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<openid.ServerMetadata> {
    const { issuer, clientId } = this.#options;
    const url = new URL(issuer);
    try {
      const config = await openid.discovery(url, clientId, undefined, openid.None(), {
        timeout: timeoutSeconds,
        ...(isLoopback(url) && { execute: [openid.allowInsecureRequests] }),
      });
      const server = config.serverMetadata();
      this.#metadata = { server, readAt: monotonicMs() };
      return server;
    } catch (error) {
      throw new IssuerUnavailable("the issuer can't be reached", { cause: error });
    }
  }
}

function authenticationOf(server: openid.ServerMetadata, secret: string | undefined): openid.ClientAuth {
  if (secret === undefined || secret === '') return openid.None();
  // The default of the standard, where the issuer does not say.
  const { token_endpoint_auth_methods_supported: methods = ['client_secret_basic'] } = server;
  return methods.includes('client_secret_post')
    ? openid.ClientSecretPost(secret)
    : openid.ClientSecretBasic(secret);
}

/** Whether no answer has come, or that of a failing server, which the library gives as the cause. */
function isOutage(error: unknown): boolean {
  const { name, message, cause } = (error ?? {}) as Partial<Error> & { cause?: { status?: number } };
  return name === 'TimeoutError' || message === 'fetch failed' || (cause?.status ?? 0) >= 500;
}
