import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Consumer } from '../../consumers/consumer.ts';
import { normaliseFingerprint } from '../../consumers/fingerprints.ts';

/** The authorities whose client certificates are trusted, by fingerprint; another object whenever they change. */
export type Authorities = ReadonlyMap<string, X509Certificate>;

/** What is known of a connection; the certificate can't change while it is open, what is thought of it can. */
interface Connection {
  certificate: X509Certificate | undefined;
  /** As consumers' records have it. */
  fingerprint: string;
  /** Milliseconds since 1970; outside of them the certificate is refused. */
  validFrom: number;
  validTo: number;
  /** Under which authorities the certificate was last found to be good. */
  judgedUnder: Authorities;
}

/** The judge of client certificates: asked with every request, so that what changes takes effect at once. */
export interface CertificateJudge {
  /** Whether the request may go on as this consumer, as far as certificates go. */
  admits(consumer: Consumer, socket: Socket): boolean;
}

/** Without TLS nobody has a certificate: a consumer that is bound to one is refused. */
export const judgeWithoutTls: CertificateJudge = {
  admits: ({ certificateFingerprints }) => certificateFingerprints.length === 0,
};

/** Judges by the certificate that the client presented when its connection was made. */
export class ClientCertificates implements CertificateJudge {
  readonly #isRequired: boolean;
  readonly #connections = new WeakMap<Socket, Connection>();
  #authorities: Authorities;

  constructor(authorities: Authorities, isRequired: boolean) {
    this.#authorities = authorities;
    this.#isRequired = isRequired;
  }

  /** Those that are trusted now. */
  get authorities(): Authorities {
    return this.#authorities;
  }

  /** From now on these are trusted. Open connections are judged again at their next request. */
  trust(authorities: Authorities): void {
    const isSame = authorities.size === this.#authorities.size && includesAll(authorities, this.#authorities);
    if (!isSame) this.#authorities = authorities;
  }

  /**
   * Takes a connection whose handshake is over. `authorities` are those of the moment when it began: a handshake that
   * began before a change was checked against the old ones.
   */
  take(socket: TLSSocket, authorities: Authorities): void {
    // Both: some versions of Node call a resumed session authorised that never had a certificate.
    const certificate = socket.authorized ? socket.getPeerX509Certificate() : undefined;
    this.#connections.set(socket, {
      certificate,
      fingerprint: certificate === undefined ? '' : normaliseFingerprint(certificate.fingerprint256),
      validFrom: certificate === undefined ? 0 : Date.parse(certificate.validFrom),
      validTo: certificate === undefined ? 0 : Date.parse(certificate.validTo),
      judgedUnder: authorities,
    });
  }

  admits({ certificateFingerprints: bound }: Consumer, socket: Socket): boolean {
    if (!this.#isRequired && bound.length === 0) return true;
    const fingerprint = this.#fingerprintOf(socket);
    if (fingerprint === undefined) return false;
    return bound.length === 0 || bound.includes(fingerprint);
  }

  /** Fingerprint of the connection's certificate; undefined where there is none, or one that is not good any more. */
  #fingerprintOf(socket: Socket): string | undefined {
    const connection = this.#connections.get(socket);
    if (connection?.certificate === undefined) return undefined;
    if (connection.judgedUnder !== this.#authorities) {
      if (!isStillTrusted(connection.certificate, connection.judgedUnder, this.#authorities)) {
        connection.certificate = undefined;
        return undefined;
      }
      connection.judgedUnder = this.#authorities;
    }
    const now = Date.now();
    return now >= connection.validFrom && now < connection.validTo ? connection.fingerprint : undefined;
  }
}

/**
 * Whether a certificate that was good under `before` is good under `now`. Certain where every authority stayed, or
 * where the certificate comes straight from a root that stayed; else the client must connect anew, and is verified.
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
