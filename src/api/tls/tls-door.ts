import { randomBytes } from 'node:crypto';
import type { RequestListener, ServerOptions } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Log } from '../../observability/log.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { type Authorities, type CertificateJudge, ClientCertificates } from './client-certificates.ts';
import { readTlsFiles, type TlsFilesUnusable, type TlsMaterial, type TlsSettings } from './tls-files.ts';
import { watchFiles } from './watch-files.ts';

/** A client that takes longer is cut off: until then it holds a connection without having asked for anything. */
const handshakeTimeoutMs = 10_000;

/** As Node wants them. */
const ticketKeyBytes = 48;

/** TLS of the API port: the server that speaks it, and who its clients are. */
export interface TlsDoor {
  readonly certificates: CertificateJudge;
  /** The server of the port; it takes over changed files without dropping connections. */
  createServer(options: ServerOptions, handler: RequestListener): Server;
  /** Stops watching the files. */
  stop(): void;
}

export interface TlsDoorOptions {
  settings: TlsSettings;
  log: Log;
  metrics: Pick<Metrics, 'tlsHandshakeFailures'>;
}

/** Reads certificate, key and authorities, and watches them. Throws `TlsFilesUnusable`. */
export async function openTlsDoor(options: TlsDoorOptions): Promise<TlsDoor> {
  return new Door(options, await readTlsFiles(options.settings));
}

class Door implements TlsDoor {
  readonly certificates: ClientCertificates;
  readonly #options: TlsDoorOptions;
  readonly #unwatch: () => void;
  #material: TlsMaterial;
  #server: Server | undefined;
  /** Digest of the files that were read last, good or not. */
  #seen: string;
  #reloading = false;
  #reloadAgain = false;

  constructor(options: TlsDoorOptions, material: TlsMaterial) {
    this.#options = options;
    this.#material = material;
    this.#seen = material.digest;
    const { certFile, keyFile, clients } = options.settings;
    this.certificates = new ClientCertificates(material.authorities, clients?.auth === 'required');
    const files = [certFile, keyFile, ...(clients ? [clients.caFile] : [])];
    this.#unwatch = watchFiles(files, () => void this.#reload());
  }

  createServer(options: ServerOptions, handler: RequestListener): Server {
    const { clients } = this.#options.settings;
    const server = createServer(
      {
        ...options,
        ...this.#material.context,
        handshakeTimeout: handshakeTimeoutMs,
        requestCert: clients !== undefined,
        // Public routes are for clients without a certificate too: each request is judged instead. `ticketKeys` stay
        // unset: with fixed ones, a session of an authority that is gone would resume as authorised.
        rejectUnauthorized: false,
      },
      handler,
    );
    this.#followConnections(server);
    server.prependListener('tlsClientError', (error: Error & { code?: string }, socket) =>
      this.#onFailedHandshake(error, socket),
    );
    // Of several workers, Node gives each the keys that the first one began with: a worker that starts after a change of
    // the authorities would take sessions from before it.
    server.once('listening', () => server.setTicketKeys(randomBytes(ticketKeyBytes)));
    this.#server = server;
    return server;
  }

  stop(): void {
    this.#unwatch();
  }

  /** A handshake is checked against the authorities of the moment when it began, which is when the bare socket comes. */
  #followConnections(server: Server): void {
    const handshakes = new Map<string, Authorities>();
    server.prependListener('connection', (socket: Socket) => {
      const ends = endsOf(socket);
      handshakes.set(ends, this.certificates.authorities);
      socket.once('close', () => handshakes.delete(ends));
    });
    server.prependListener('secureConnection', (socket: TLSSocket) => {
      const authorities = handshakes.get(endsOf(socket));
      // Without them (the client has gone already) the connection counts as one without certificate.
      if (authorities) this.certificates.take(socket, authorities);
    });
  }

  /**
   * There is nobody to answer. Only the error's code is told: strangers could fill the log, and asking the socket of a
   * refused handshake for its protocol once it is closed ends the process (Node 24.21.0).
   */
  #onFailedHandshake({ code }: { code?: string }, socket: TLSSocket): void {
    socket.destroy();
    const { metrics, log } = this.#options;
    metrics.tlsHandshakeFailures.inc();
    log.debug({ code }, 'a TLS handshake failed');
  }

  /** One after the other: a slow read must not overtake a later one. */
  async #reload(): Promise<void> {
    this.#reloadAgain = true;
    if (this.#reloading) return;
    this.#reloading = true;
    while (this.#reloadAgain) {
      this.#reloadAgain = false;
      await this.#readAgain();
    }
    this.#reloading = false;
  }

  /** Takes the files if they have changed; broken ones are told once, and the old ones stay. */
  async #readAgain(): Promise<void> {
    const { log, settings } = this.#options;
    try {
      const material = await readTlsFiles(settings);
      this.#seen = material.digest;
      if (material.digest === this.#material.digest) return;
      this.#material = material;
      this.#server?.setSecureContext(material.context);
      this.certificates.trust(material.authorities);
      log.info({}, 'the TLS certificates were loaded again');
    } catch (error) {
      const { digest } = error as TlsFilesUnusable;
      if (digest === this.#seen) return;
      this.#seen = digest;
      log.error({ err: error }, 'the new TLS files cannot be used; the old ones stay in force');
    }
  }
}

/** Names a connection among all that are open. */
function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return [remoteAddress, remotePort, localAddress, localPort].join(' ');
}
