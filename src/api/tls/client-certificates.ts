import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { certificateNamesIn } from '../../identity/consumers/certificate-names.ts';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import { normaliseFingerprint } from '../../identity/consumers/consumer.ts';
import { wallMs } from '../../platform/base/chance.ts';

export type Authorities = ReadonlyMap<string, X509Certificate>;

/** The certificate of a connection cannot change while it is open, but whether it is trusted can. */
interface Connection {
  certificate: X509Certificate | undefined;
  fingerprint: string;
  names: ReadonlySet<string>;
  /** Milliseconds since 1970; outside of them the certificate is refused. */
  validFrom: number;
  validTo: number;
  verifiedUnder: Authorities;
}

export interface CertificateCheck {
  admits(consumer: Consumer, socket: Socket): boolean;
}

/** Without TLS there are no certificates: a consumer that is bound to one is refused. */
export const checkWithoutTls: CertificateCheck = {
  admits: (consumer) => !isBound(consumer),
};

function isBound({ certificateFingerprints, certificateNames = [] }: Consumer): boolean {
  return certificateFingerprints.length > 0 || certificateNames.length > 0;
}

export class ClientCertificates implements CertificateCheck {
  readonly #isRequired: boolean;
  readonly #connections = new WeakMap<Socket, Connection>();
  #authorities: Authorities;

  constructor(authorities: Authorities, isRequired: boolean) {
    this.#authorities = authorities;
    this.#isRequired = isRequired;
  }

  get authorities(): Authorities {
    return this.#authorities;
  }

  trust(authorities: Authorities): void {
    const isSame = authorities.size === this.#authorities.size && includesAll(authorities, this.#authorities);
    if (!isSame) this.#authorities = authorities;
  }

  /**
   * Takes a connection whose handshake is over. `authorities`: those of when the handshake began, against which it was
   * checked.
   */
  take(socket: TLSSocket, authorities: Authorities): void {
    // Both: some versions of Node call a resumed session authorised that never had a certificate.
    const certificate = socket.authorized ? socket.getPeerX509Certificate() : undefined;
    this.#connections.set(socket, {
      certificate,
      fingerprint: certificate === undefined ? '' : normaliseFingerprint(certificate.fingerprint256),
      names: certificateNamesIn(certificate?.subjectAltName),
      validFrom: certificate === undefined ? 0 : Date.parse(certificate.validFrom),
      validTo: certificate === undefined ? 0 : Date.parse(certificate.validTo),
      verifiedUnder: authorities,
    });
  }

  admits(consumer: Consumer, socket: Socket): boolean {
    if (!this.#isRequired && !isBound(consumer)) return true;
    const valid = this.#validOf(socket);
    if (valid === undefined) return false;
    const { certificateFingerprints, certificateNames = [] } = consumer;
    if (!isBound(consumer) || certificateFingerprints.includes(valid.fingerprint)) return true;
    return certificateNames.some((name) => valid.names.has(name));
  }

  #validOf(socket: Socket): Connection | undefined {
    const connection = this.#connections.get(socket);
    if (connection?.certificate === undefined) return undefined;
    if (connection.verifiedUnder !== this.#authorities) {
      if (!isStillTrusted(connection.certificate, connection.verifiedUnder, this.#authorities)) {
        connection.certificate = undefined;
        return undefined;
      }
      connection.verifiedUnder = this.#authorities;
    }
    const now = wallMs();
    return now >= connection.validFrom && now < connection.validTo ? connection : undefined;
  }
}

/**
 * Whether a certificate that was valid under `before` is valid under `now`. Certain where every authority stayed, or
 * where a root that stayed issued the certificate; otherwise the client must connect again, and is verified then.
 */
function isStillTrusted(certificate: X509Certificate, before: Authorities, now: Authorities): boolean {
  if (includesAll(now, before)) return true;
  return [...now].some(
    ([fingerprint, authority]) =>
      before.has(fingerprint) &&
      authority.checkIssued(authority) &&
      certificate.checkIssued(authority) &&
      certificate.verify(authority.publicKey),
  );
}

function includesAll(all: Authorities, some: Authorities): boolean {
  return [...some.keys()].every((fingerprint) => all.has(fingerprint));
}
