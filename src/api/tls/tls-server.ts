import type { RequestListener, ServerOptions } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { randomBytes } from '../../platform/base/chance.ts';
import { coalesce } from '../../platform/base/concurrency.ts';
import { endsOf } from '../../platform/http/connections.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { TlsSettings } from '../../platform/settings/table.ts';
import { type Authorities, ClientCertificates } from './client-certificates.ts';
import { readTlsFiles, type TlsFilesUnusable, type TlsMaterial, watchFiles } from './tls-files.ts';

/** A client that takes longer is cut off: until then it holds a connection without a request. */
const handshakeTimeoutMs = 10_000;

const ticketKeyBytes = 48;

export interface TlsServerOptions {
  settings: TlsSettings;
  log: Log;
  metrics: Pick<Metrics, 'tlsHandshakeFailures'>;
}

export async function openTlsServer(options: TlsServerOptions): Promise<TlsServer> {
  return new TlsServer(options, await readTlsFiles(options.settings));
}

export class TlsServer {
  readonly certificates: ClientCertificates;
  readonly #options: TlsServerOptions;
  readonly #unwatch: () => void;
  #material: TlsMaterial;
  #server: Server | undefined;
  #seen: string;
  /** One after the other: a slow read must not overtake a later one. */
  readonly #reload = coalesce(() => this.#readAgain());

  constructor(options: TlsServerOptions, material: TlsMaterial) {
    this.#options = options;
    this.#material = material;
    this.#seen = material.digest;
    const { certFile, keyFile, clientCaFile, clientAuth } = options.settings;
    this.certificates = new ClientCertificates(material.authorities, clientAuth === 'required');
    const files = [certFile, keyFile, ...(clientCaFile ? [clientCaFile] : [])];
    this.#unwatch = watchFiles(files, () => void this.#reload());
  }

  createServer(options: ServerOptions, handler: RequestListener): Server {
    const { clientCaFile } = this.#options.settings;
    const server = createServer(
      {
        ...options,
        ...this.#material.context,
        handshakeTimeout: handshakeTimeoutMs,
        requestCert: clientCaFile !== undefined,
        // Public routes also take clients without a certificate, so each request is checked instead. `ticketKeys` stay
        // unset: with fixed ones, a session of a removed authority would resume as authorised.
        rejectUnauthorized: false,
      },
      handler,
    );
    this.#followConnections(server);
    server.prependListener('tlsClientError', (error: Error & { code?: string }, socket) =>
      this.#onFailedHandshake(error, socket),
    );
    // Node gives every worker the ticket keys of the first one: a worker that starts after a change of the authorities
    // would take sessions from before it.
    server.once('listening', () => server.setTicketKeys(randomBytes(ticketKeyBytes)));
    this.#server = server;
    return server;
  }

  stop(): void {
    this.#unwatch();
  }

  /** A handshake is checked against the authorities of when it began: that is when the bare socket comes. */
  #followConnections(server: Server): void {
    const handshakes = new Map<string, Authorities>();
    server.prependListener('connection', (socket: Socket) => {
      const ends = endsOf(socket);
      handshakes.set(ends, this.certificates.authorities);
      socket.once('close', () => handshakes.delete(ends));
    });
    server.prependListener('secureConnection', (socket: TLSSocket) => {
      const authorities = handshakes.get(endsOf(socket));
      // Without them (the client has hung up) the connection counts as one without a certificate.
      if (authorities) this.certificates.take(socket, authorities);
    });
  }

  /**
   * Only the error's code is logged: unauthenticated callers could fill the log, and reading the protocol of a refused
   * handshake from its closed socket ends the process (Node 24.21.0).
   */
  #onFailedHandshake({ code }: { code?: string }, socket: TLSSocket): void {
    socket.destroy();
    const { metrics, log } = this.#options;
    metrics.tlsHandshakeFailures.inc();
    log.debug({ code }, 'a TLS handshake failed');
  }

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
      log.error({ err: error }, "can't use the new TLS files; the old ones stay in use");
    }
  }
}
