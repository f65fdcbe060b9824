import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { SignJWT } from 'jose';
import {
  type Secret,
  type SecretsManager,
  SecretsUnavailable,
} from '../../platform/secrets/secrets-manager.ts';
import type { Connection } from './access-token.ts';
import { TokenFailure } from './token-endpoint.ts';

/** How long an assertion is valid: Salesforce allows 3 minutes at least, and refuses much more. */
const assertionSeconds = 180;

export interface KeyCertificate {
  /** Milliseconds since 1970. */
  endsAt: number;
  fits: boolean;
}

export type OnKey = (certificate: KeyCertificate | undefined) => void;

interface SignerOptions extends Connection {
  secrets: SecretsManager;
  privateKeySecret: string;
  now: () => number;
  onKey?: OnKey;
}

export class AssertionSigner {
  readonly #options: SignerOptions;
  #loaded: { key: KeyObject; version: string; certificate: KeyCertificate | undefined } | undefined;
  #keyVersion: string | null = null;

  constructor(options: SignerOptions) {
    this.#options = options;
  }

  /** Version of the key that was read last, whether usable or not; null where none was found. */
  get keyVersion(): string | null {
    return this.#keyVersion;
  }

  /** The certificate in the secret of the key that was read last; undefined where there is none. */
  get certificate(): KeyCertificate | undefined {
    return this.#loaded?.certificate;
  }

  /**
   * Signs a fresh assertion with the key as the secrets manager has it now, for `crm.audience` where no other is given.
   * Throws `TokenFailure` where there is no usable key.
   */
  async sign(audience = this.#options.audience): Promise<string> {
    const key = await this.#loadKey();
    const { clientId, username, now } = this.#options;
    return new SignJWT()
      .setProtectedHeader({ alg: 'RS256' })
      .setIssuer(clientId)
      .setSubject(username)
      .setAudience(audience)
      .setExpirationTime(Math.floor(now() / 1000) + assertionSeconds)
      .sign(key)
      .catch(() => this.#refuseKey("can't be used for RS256"));
  }

  async hasOtherKeyThan(keyVersion: string | null): Promise<boolean> {
    const secret = await this.#options.secrets.read(this.#options.privateKeySecret);
    return (secret?.version ?? null) !== keyVersion;
  }

  async #loadKey(): Promise<KeyObject> {
    const secret = await this.#readSecret();
    if (secret === 'unavailable') return this.#loaded?.key ?? this.#secretsUnavailable();
    this.#keyVersion = secret?.version ?? null;
    if (secret === undefined) return this.#refuseKey("doesn't exist");
    if (this.#loaded?.version !== secret.version) {
      const key = this.#parse(secret.value);
      const certificate = readCertificate(secret.value, key);
      this.#loaded = { key, version: secret.version, certificate };
      this.#options.onKey?.(certificate);
    }
    return this.#loaded.key;
  }

  async #readSecret(): Promise<Secret | undefined | 'unavailable'> {
    try {
      return await this.#options.secrets.read(this.#options.privateKeySecret);
    } catch (error) {
      if (error instanceof SecretsUnavailable) return 'unavailable';
      throw error;
    }
  }

  #parse(pem: string): KeyObject {
    try {
      const key = createPrivateKey(pem);
      if (key.asymmetricKeyType === 'rsa') return key;
    } catch {
      return this.#refuseKey("isn't a private key in PEM format");
    }
    return this.#refuseKey("isn't an RSA key");
  }

  #refuseKey(fault: string): never {
    const name = this.#options.privateKeySecret;
    const advice = `The secret ${name} ${fault}. Store the RSA private key of the app's certificate there, in PEM format.`;
    throw new TokenFailure('private_key', advice, { permanent: true });
  }

  #secretsUnavailable(): never {
    const advice = "The secrets manager isn't responding. Check its health.";
    throw new TokenFailure('secrets_unavailable', advice, { permanent: false });
  }
}

/** One behind the key: the CRM does not say when the certificate of the app ends. */
function readCertificate(pem: string, key: KeyObject): KeyCertificate | undefined {
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) return undefined;
  try {
    const certificate = new X509Certificate(pem);
    return { endsAt: Date.parse(certificate.validTo), fits: certificate.checkPrivateKey(key) };
  } catch {
    return undefined;
  }
}
